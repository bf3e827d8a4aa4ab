// quern estimate MODEL: how much memory serving it takes here.
#include <cstdio>
#include <memory>

#include "base/status.h"
#include "catalog_report.h"
#include "command.h"
#include "engine/kv_sizing.h"
#include "model_arg.h"
#include "platform/catalog/describe.h"

namespace quern::cli {
namespace {

struct EstimateOptions {
  std::string model;
  std::string quantization;
  EngineOptions engine;
  bool json = false;
};

Status estimate(const EstimateOptions& options) {
  QUERN_ASSIGN(const ModelEstimate estimate, estimate_model(options.model, options.quantization, options.engine));
  const MemoryEstimate& memory = estimate.memory;
  const int64_t available = available_memory_bytes();
  if (options.json) {
    Json json = {{"model", options.model},
                 {"basis", estimate.path.empty() ? "catalogue" : "files"},
                 {"path", estimate.path.empty() ? Json(nullptr) : Json(estimate.path.string())}};
    json.update(memory_json(memory));
    print_json(json);
    return {};
  }
  const std::pair<const char*, int64_t> lines[] = {{"weights", memory.weights},         {"kv cache", memory.kv_cache},
                                                   {"activations", memory.activations}, {"overhead", memory.overhead},
                                                   {"total", memory.total()},           {"free now", available}};
  for (const auto& [name, bytes] : lines) std::printf("%-12s %12s\n", name, size_text(bytes).c_str());
  std::printf("%-12s %12d tokens\n", "context", memory.max_model_len);
  std::printf("%-12s %s\n", "basis", estimate.path.empty() ? "the catalogue's numbers" : estimate.path.c_str());
  return {};
}

}  // namespace

void add_estimate(CLI::App& app, ExitCode& exit) {
  const auto options = std::make_shared<EstimateOptions>();
  CLI::App* command = app.add_subcommand("estimate", "how much memory serving a model takes here; pulls nothing");
  command->add_option("MODEL", options->model, kModelHelp)->required();
  command->add_option("--context,--max-model-len", options->engine.max_model_len, "longest sequence; 0: the model's")
      ->capture_default_str();
  command->add_option("--max-num-seqs", options->engine.max_num_seqs, "sequences at once")->capture_default_str();
  command->add_option("--max-num-batched-tokens", options->engine.max_num_batched_tokens, "tokens of a step")
      ->capture_default_str();
  command->add_option("--kv-cache-dtype", options->engine.kv_cache_dtype, "auto | f32 | f16 | bf16 | i16 | q8_0 | q4_0")
      ->capture_default_str();
  command->add_option("--kv-cache-dtype-v", options->engine.kv_cache_dtype_v,
                      "of values, where they shall differ from keys");
  command
      ->add_option("--kv-cache-memory", options->engine.kv_cache_bytes,
                   "size of the KV cache (512M, 2G); 0: from context and memory")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false))
      ->default_str("0");
  command->add_option("--precision", options->engine.precision, "fast | exact")->capture_default_str();
  command->add_option("--quantization", options->quantization, "another one of the same size, as the catalogue has it");
  command->add_flag("--json", options->json, "print JSON; bytes");
  command->callback([options, command, &exit] { finish(estimate(*options), *command, exit); });
}

}  // namespace quern::cli
