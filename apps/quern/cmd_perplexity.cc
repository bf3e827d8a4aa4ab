// quern perplexity MODEL --file F: how well a model predicts a text, and with --kl-to how far one precision is from the
// other.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "base/json.h"
#include "base/status.h"
#include "command.h"
#include "engine/perplexity.h"
#include "engine/text_model.h"
#include "input.h"
#include "measure_args.h"
#include "model_arg.h"

namespace quern::cli {
namespace {

struct PerplexityArgs : MeasureArgs {
  std::string file;
  std::string kl_to;
  PerplexityOptions options;
};

// Rows of logits held at once: bounded by memory, large enough that a matrix product over the vocabulary pays.
int32_t logits_rows_for(const ModelConfig& config, const PerplexityArgs& args) {
  constexpr int64_t kLogitsBytesMax = 64 << 20;
  const int64_t row_bytes = int64_t{config.vocab_size} * static_cast<int64_t>(sizeof(float));
  const int64_t rows = std::clamp<int64_t>(kLogitsBytesMax / row_bytes, 16, 256);
  return static_cast<int32_t>(std::min<int64_t>({rows, args.engine.max_num_batched_tokens, args.options.context}));
}

Result<std::vector<int32_t>> read_ids(const Tokenizer& tokenizer, const std::string& path) {
  QUERN_ASSIGN(const std::string text, read_text(path));
  auto encoding = tokenizer.encode(text, {});
  if (!encoding) return std::unexpected(with_name(std::move(encoding).error(), "text", input_name(path)));
  return std::move(encoding->ids);
}

// Before the weights are loaded.
Status check_windows(size_t num_ids, const PerplexityArgs& args) {
  const PerplexityOptions& options = args.options;
  if (options.context < 4) return invalid_argument(fmt::format("--ctx: {} is less than 4", options.context));
  if (options.chunks_max < 0) return invalid_argument(fmt::format("--chunks: {} is negative", options.chunks_max));
  if (num_ids >= static_cast<size_t>(options.context)) return {};
  return invalid_argument(fmt::format("--file {}: the text has {} tokens, fewer than one window of {} (--ctx)",
                                      input_name(args.file), num_ids, options.context));
}

void show_progress(const PerplexityResult& so_far, int32_t chunks) {
  if (::isatty(STDERR_FILENO) == 0) return;
  std::fprintf(stderr, "\r%d of %d windows, perplexity %.4f%s", so_far.chunks, chunks, so_far.perplexity(),
               so_far.chunks == chunks ? "\n" : "");
}

void print_result(const PerplexityResult& result, bool as_json) {
  const double error = result.standard_error * result.perplexity();
  if (as_json) {
    Json json = {{"perplexity", result.perplexity()},
                 {"stderr", error},
                 {"nll", result.nll},
                 {"tokens", result.tokens},
                 {"chunks", result.chunks}};
    if (const auto& divergence = result.divergence) {
      json["kl_divergence"] = divergence->mean;
      json["kl_divergence_max"] = divergence->max;
      json["top1_agreement"] = divergence->top1_agreement;
    }
    std::printf("%s\n", dump_json(json).c_str());
    return;
  }
  std::printf("perplexity %.4f ± %.4f over %lld tokens in %d windows\n", result.perplexity(), error,
              static_cast<long long>(result.tokens), result.chunks);
  if (const auto& divergence = result.divergence) {
    std::printf("KL divergence %.6f per token (largest %.6f), same first choice for %.2f %% of tokens\n",
                divergence->mean, divergence->max, 100 * divergence->top1_agreement);
  }
}

Status perplexity(PerplexityArgs args) {
  QUERN_ASSIGN(RunnerOptions options, runner_options(args.engine));
  std::optional<RunnerOptions> reference_options;
  if (!args.kl_to.empty()) {
    EngineOptions engine = args.engine;
    const auto precision = parse_precision(args.kl_to);
    if (!precision) return std::unexpected(with_name(precision.error(), "precision", "--kl-to"));
    engine.precision = args.kl_to;
    engine.quantization = "none";
    engine.kv_cache_dtype = "auto";
    engine.kv_cache_dtype_v.clear();
    QUERN_ASSIGN(reference_options, runner_options(engine));
  }
  QUERN_ASSIGN(const auto path, resolve_model(args.model));
  QUERN_ASSIGN(auto source, open_model_source(path));
  QUERN_ASSIGN(const auto text, TextModel::create(*source));
  QUERN_ASSIGN(const auto config, read_model_config(*source));
  QUERN_ASSIGN(const auto ids, read_ids(text->tokenizer(), args.file));
  QUERN_TRY(check_windows(ids.size(), args));
  if (text->tokenizer().adds_bos()) args.options.bos_id = text->tokenizer().bos_id();
  options.max_logits_rows = logits_rows_for(config, args);
  QUERN_ASSIGN(const auto runner, Runner::create(std::move(source), options));
  std::unique_ptr<Runner> reference;
  if (reference_options) {
    reference_options->max_logits_rows = options.max_logits_rows;
    QUERN_ASSIGN(reference, load_runner(path, *reference_options));
  }
  QUERN_ASSIGN(const auto result, measure_perplexity(*runner, reference.get(), ids, args.options, show_progress));
  print_result(result, args.json);
  return {};
}

}  // namespace

void add_perplexity(CLI::App& app, ExitCode& exit) {
  const auto args = std::make_shared<PerplexityArgs>();
  CLI::App* command = app.add_subcommand("perplexity", "measure how well a model predicts a text");
  add_measure_options(*command, *args);
  command->add_option("-f,--file", args->file, "the text, UTF-8; - is stdin")->required();
  command->add_option("-c,--ctx", args->options.context, "tokens of a window; the second half of each is scored")
      ->capture_default_str();
  command->add_option("--chunks", args->options.chunks_max, "windows; 0: all of the text")->capture_default_str();
  command->add_option(
      "--kl-to", args->kl_to,
      "also print the divergence from this precision (exact or fast), its KV cache auto, its weights as "
      "the file has them");
  command->callback([args, command, &exit] { finish(perplexity(*args), *command, exit); });
}

}  // namespace quern::cli
