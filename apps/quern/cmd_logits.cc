// quern logits MODEL --ids 1,2,3 -o out.safetensors [--hidden]: what a model computes for given ids, every position.
// Encoders give their last states and the embedding, classifiers the logits of their labels.
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "base/status.h"
#include "command.h"
#include "engine/encoder_service.h"
#include "engine/sequence_runner.h"
#include "formats/safetensors/safetensors_writer.h"
#include "generation_options.h"
#include "input.h"
#include "model_arg.h"

namespace quern::cli {
namespace {

struct LogitsOptions {
  std::string model;
  std::string ids;
  std::optional<std::string> type_ids;
  std::filesystem::path output;
  bool hidden = false;
  EngineOptions engine;
};

// Float rows that grow chunk by chunk, in order of first appearance.
class NamedRows {
 public:
  void append(const std::string& name, std::span<const float> rows, int64_t cols) {
    Entry& entry = find(name);
    entry.cols = cols;
    entry.values.insert(entry.values.end(), rows.begin(), rows.end());
  }
  void append_vector(const std::string& name, std::span<const float> values) { append(name, values, 0); }
  Status write(const std::filesystem::path& path) const {
    std::vector<TensorView> tensors;
    for (const auto& entry : entries_) {
      const auto size = static_cast<int64_t>(entry->values.size());
      tensors.push_back({.name = entry->name,
                         .dtype = DType::kF32,
                         .shape = entry->cols == 0 ? Shape{size} : Shape{size / entry->cols, entry->cols},
                         .bytes = std::as_bytes(std::span(entry->values))});
    }
    return write_safetensors(path, tensors);
  }

 private:
  struct Entry {
    std::string name;
    int64_t cols = 0;  // 0: a vector
    std::vector<float> values;
  };
  Entry& find(const std::string& name) {
    for (const auto& entry : entries_) {
      if (entry->name == name) return *entry;
    }
    entries_.push_back(std::make_unique<Entry>(Entry{.name = name}));
    return *entries_.back();
  }
  std::vector<std::unique_ptr<Entry>> entries_;
};

// Where a forward first computes what is no finite number.
class FirstNonFinite {
 public:
  explicit FirstNonFinite(std::string model) : model_(std::move(model)) {}
  // Rows of the positions that follow those of the chunks before.
  void look(const std::string& place, std::span<const float> values, int64_t cols) {
    if (found_) return;
    const auto bad = std::ranges::find_if(values, [](float value) { return !std::isfinite(value); });
    if (bad == values.end()) return;
    found_ = fmt::format("{}: not finite at position {}", place, begin_ + (bad - values.begin()) / cols);
  }
  // Called behind each chunk.
  Status end_chunk(int64_t rows) {
    begin_ += rows;
    if (!found_) return {};
    return invalid_file(fmt::format("{}: {}: weights hold NaN, infinity or too large numbers", model_, *found_));
  }

 private:
  std::string model_;
  int64_t begin_ = 0;
  std::optional<std::string> found_;
};

// "layer 3" of "layer.3".
std::string place_of(std::string name) {
  std::ranges::replace(name, '.', ' ');
  return name;
}

// Looks at the states a forward shows.
HiddenTap tap_for(FirstNonFinite& check, Device& device) {
  return [&check, &device, host = std::vector<float>()](const std::string& name, Mat states) mutable {
    host.resize(static_cast<size_t>(states.rows * states.cols));
    for (int64_t row = 0; row < states.rows; ++row) {
      device.download(states.row(row), std::span(host).subspan(static_cast<size_t>(row * states.cols),
                                                               static_cast<size_t>(states.cols)));
    }
    check.look(place_of(name), host, states.cols);
  };
}

// Appends the states a forward shows.
HiddenTap tap_into(NamedRows& result, Device& device) {
  return [&result, &device, host = std::vector<float>()](const std::string& name, Mat states) mutable {
    host.resize(static_cast<size_t>(states.cols));
    for (int64_t row = 0; row < states.rows; ++row) {
      device.download(states.row(row), host);
      result.append(name, host, states.cols);
    }
  };
}

Status decoder_logits(std::unique_ptr<ModelSource> source, const std::vector<int32_t>& ids,
                      const LogitsOptions& options) {
  QUERN_ASSIGN(RunnerOptions runner_settings, runner_options(options.engine));
  // Rows of logits are kept for a whole chunk; a chunk never needs to be longer than the input.
  const int32_t rows = std::min(runner_settings.max_num_batched_tokens, static_cast<int32_t>(ids.size()));
  runner_settings.max_num_batched_tokens = runner_settings.max_logits_rows = rows;
  QUERN_ASSIGN(auto runner, Runner::create(std::move(source), runner_settings));
  const int64_t vocab_size = runner->config().vocab_size;
  for (int32_t id : ids) {
    if (id < 0 || id >= vocab_size) {
      return invalid_argument(fmt::format("--ids: token id {} is outside the vocabulary of {}", id, vocab_size));
    }
  }
  if (ids.size() > static_cast<size_t>(runner->config().context_length)) {
    return invalid_argument(fmt::format("--ids: {} tokens are more than the model's context of {}", ids.size(),
                                        runner->config().context_length));
  }
  QUERN_ASSIGN(auto sequences, SequenceRunner::create(*runner, {.tokens_max = static_cast<int32_t>(ids.size())}));
  NamedRows result;
  FirstNonFinite check(options.model);
  const HiddenTap store = tap_into(result, runner->device()), look = tap_for(check, runner->device());
  const HiddenTap tap = [&](const std::string& name, Mat states) {
    look(name, states);
    if (options.hidden) store(name, states);
  };
  QUERN_TRY(sequences.append_chunked(
      0, ids, LogitsRows::kAll,
      [&](int32_t, std::span<float> logits) -> Status {
        check.look("logits", logits, vocab_size);
        QUERN_TRY(check.end_chunk(static_cast<int64_t>(logits.size()) / vocab_size));
        result.append("logits", logits, vocab_size);
        return {};
      },
      &tap));
  return result.write(options.output);
}

// The encoder speaks of its inputs by number; here is one.
Error in_terms_of_input(Error error) {
  constexpr std::string_view kInput = "input 0: ";
  if (error.message.starts_with(kInput)) error.message.erase(0, kInput.size());
  const bool of_types = error.message.starts_with("type id ") || error.message.ends_with("token types");
  return prefixed(std::move(error), of_types ? "--type-ids" : "--ids");
}

Status encoder_logits(std::unique_ptr<ModelSource> source, const std::vector<int32_t>& ids,
                      const LogitsOptions& options) {
  std::vector<int32_t> type_ids;
  if (options.type_ids) {
    QUERN_ASSIGN(type_ids, parse_ids("--type-ids", *options.type_ids));
    if (type_ids.size() != ids.size()) {
      return invalid_argument(fmt::format("--type-ids: {} for {} ids", type_ids.size(), ids.size()));
    }
  }
  QUERN_ASSIGN(const RunnerOptions settings, runner_options(options.engine));
  QUERN_ASSIGN(auto service, EncoderService::create(std::move(source), {.device = settings.device,
                                                                        .precision = settings.precision,
                                                                        .num_threads = settings.num_threads}));
  NamedRows result;
  const HiddenTap tap = tap_into(result, service->device());
  auto output = service->run({ids, type_ids}, true, options.hidden ? &tap : nullptr);
  if (!output) return std::unexpected(in_terms_of_input(std::move(output).error()));
  if (!output->scores.empty()) result.append_vector("logits", output->scores);
  if (output->scores.empty() || options.hidden) {
    result.append("last_hidden_state", output->last_hidden_state, service->config().hidden_size);
  }
  if (!output->embedding.empty()) result.append_vector("embedding", output->embedding);
  return result.write(options.output);
}

Status run(const LogitsOptions& options) {
  QUERN_ASSIGN(const auto ids, parse_ids("--ids", options.ids));
  QUERN_ASSIGN(const auto path, resolve_model(options.model));
  QUERN_ASSIGN(auto source, open_model_source(path));
  QUERN_ASSIGN(const ModelConfig config, read_model_config(*source));
  if (config.kind != ModelKind::kDecoder) return encoder_logits(std::move(source), ids, options);
  if (options.type_ids) {
    return invalid_argument(fmt::format("--type-ids: {} has no token types", path.string()));
  }
  if (auto done = decoder_logits(std::move(source), ids, options); !done) {
    return std::unexpected(with_name(done.error(), "prompt_ids", "--ids"));
  }
  return {};
}

}  // namespace

void add_logits(CLI::App& app, ExitCode& exit) {
  const auto options = std::make_shared<LogitsOptions>();
  CLI::App* command = app.add_subcommand("logits", "write the logits of given ids to a safetensors file");
  command->add_option("MODEL", options->model, kModelHelp)->required();
  command->add_option("--ids", options->ids, "token ids, used as given: 1,2,3")->required();
  command->add_option("--type-ids", options->type_ids, "segment of each id, for encoders that have them: 0,0,1");
  command->add_option("-o,--output", options->output, "safetensors file to write")->required();
  command->add_flag("--hidden", options->hidden, "the states between the layers too: embed, layer.N, final");
  add_engine_options(*command, options->engine);
  command->callback([options, command, &exit] { finish(run(*options), *command, exit); });
}

}  // namespace quern::cli
