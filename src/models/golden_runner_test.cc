#include "models/golden_runner.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "base/json.h"
#include "formats/safetensors/safetensors_file.h"
#include "tensor/dequantize.h"

namespace quern::testing {
namespace {

Json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  auto json = parse_json(text.str(), path.string());
  if (!json) {
    ADD_FAILURE() << json.error().message;
    return Json::object();
  }
  return std::move(*json);
}

std::vector<float> read_tensor(const SafetensorsFile& file, const std::string& name) {
  const TensorView* view = file.find(name);
  if (view == nullptr) {
    ADD_FAILURE() << "golden tensor " << name << " is missing";
    return {};
  }
  std::vector<float> values(static_cast<size_t>(view->elements()));
  dequantize(view->dtype, view->bytes.data(), values.data(), view->elements());
  return values;
}

std::vector<GoldenPrompt> read_prompts(const Json& json, const SafetensorsFile& tensors) {
  std::vector<GoldenPrompt> prompts;
  for (const Json& entry : json) {
    GoldenPrompt prompt;
    prompt.name = entry["name"].get<std::string>();
    prompt.ids = entry["ids"].get<std::vector<int32_t>>();
    prompt.greedy = entry["greedy"].get<std::vector<int32_t>>();
    prompt.logits = read_tensor(tensors, entry["logits"].get<std::string>());
    if (entry.contains("hidden")) {
      for (const Json& name : entry["hidden"]) prompt.hidden[name] = read_tensor(tensors, name);
      if (tensors.find("final") != nullptr) prompt.hidden["final"] = read_tensor(tensors, "final");
    }
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

GoldenModel read_golden(const Json& json, const std::filesystem::path& tensors_path,
                        const std::filesystem::path& path) {
  GoldenModel golden;
  golden.path = path;
  auto tensors = SafetensorsFile::open(tensors_path);
  if (!tensors) {
    ADD_FAILURE() << tensors.error().message;
    return golden;
  }
  golden.prompts = read_prompts(json["prompts"], **tensors);
  if (json.contains("tolerance")) golden.logits_tolerance = json["tolerance"]["logits_max_abs"].get<float>();
  return golden;
}

}  // namespace

GoldenModel read_golden_folder(const std::filesystem::path& folder, const std::filesystem::path& path) {
  return read_golden(read_json(folder / "golden.json"), folder / "golden.safetensors", path);
}

GoldenModel read_golden_gguf(const std::filesystem::path& list, const std::string& file) {
  const Json json = read_json(list);
  const Json& entry = json["files"][file];
  const std::filesystem::path folder = list.parent_path();
  if (entry.contains("prompts")) return read_golden(entry, folder / "golden.safetensors", folder / file);
  return read_golden_folder(folder.parent_path() / entry["model"].get<std::string>(), folder / file);
}

LoadedModel load(const std::filesystem::path& path, const std::string& device_name, const LoadOptions& options) {
  LoadedModel loaded;
  if (device_name == "reference") {
    loaded.device = make_reference_device();
  } else {
    auto device = make_cpu_device({.num_threads = 2, .isa = ""});
    if (!device) {
      ADD_FAILURE() << device.error().message;
      return loaded;
    }
    loaded.device = std::move(*device);
  }
  auto source = open_model_source(path);
  if (!source) {
    ADD_FAILURE() << source.error().message;
    return loaded;
  }
  loaded.source = std::move(*source);
  auto model = load_decoder(*loaded.source, *loaded.device, options);
  if (!model) {
    ADD_FAILURE() << model.error().message;
    return loaded;
  }
  loaded.model = std::move(*model);
  return loaded;
}

DecoderRunner::DecoderRunner(DecoderModel& model, Device& device, int32_t num_sequences, int32_t tokens_max)
    : model_(model) {
  const int32_t per_sequence = (tokens_max + kKvBlockSize - 1) / kKvBlockSize;
  const int32_t num_blocks = per_sequence * num_sequences;
  auto kv = device.allocate_kv(model.kv_layers(KvDType::kF32, KvDType::kF32), num_blocks);
  if (!kv) {
    ADD_FAILURE() << kv.error().message;
    return;
  }
  kv_ = std::move(*kv);
  blocks_.resize(static_cast<size_t>(num_sequences));
  for (int32_t i = 0; i < num_blocks; ++i) {
    blocks_[static_cast<size_t>(i % num_sequences)].push_back(num_blocks - 1 - i);
  }
  positions_.assign(static_cast<size_t>(num_sequences), 0);
}

void DecoderRunner::reset() {
  std::ranges::fill(positions_, 0);
}

std::vector<float> DecoderRunner::step(const std::vector<Piece>& pieces, const HiddenTap* tap) {
  std::vector<int32_t> ids, slots, rows;
  std::vector<BatchSequence> sequences;
  for (const Piece& piece : pieces) {
    const std::vector<int32_t>& blocks = blocks_[static_cast<size_t>(piece.sequence)];
    int32_t& position = positions_[static_cast<size_t>(piece.sequence)];
    sequences.push_back({.span = {.query_begin = static_cast<int32_t>(ids.size()),
                                  .query_count = static_cast<int32_t>(piece.ids.size()),
                                  .context_begin = position,
                                  .blocks = blocks},
                         .prompt_tokens = piece.prompt_tokens});
    for (int32_t id : piece.ids) {
      rows.push_back(static_cast<int32_t>(ids.size()));
      ids.push_back(id);
      slots.push_back(blocks[static_cast<size_t>(position / kKvBlockSize)] * kKvBlockSize + position % kKvBlockSize);
      ++position;
    }
  }
  std::vector<float> logits(rows.size() * static_cast<size_t>(model_.config().vocab_size));
  const Batch batch{ids, slots, sequences, rows};
  const Status status = model_.forward(batch, *kv_, logits, tap);
  EXPECT_TRUE(status.has_value()) << status.error().message;
  return logits;
}

std::vector<float> run_chunked(DecoderRunner& runner, int32_t sequence, const std::vector<int32_t>& ids, size_t chunk) {
  std::vector<float> logits;
  for (size_t begin = 0; begin < ids.size(); begin += chunk) {
    const size_t end = std::min(begin + chunk, ids.size());
    const std::vector<float> part =
        runner.step({{sequence,
                      {ids.begin() + static_cast<ptrdiff_t>(begin), ids.begin() + static_cast<ptrdiff_t>(end)},
                      static_cast<int32_t>(ids.size())}});
    logits.insert(logits.end(), part.begin(), part.end());
  }
  return logits;
}

float max_abs_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return INFINITY;
  float largest = 0.0f;
  for (size_t i = 0; i < a.size(); ++i) {
    const float difference = std::abs(a[i] - b[i]);
    if (!(difference <= largest)) largest = difference;  // a NaN stays
  }
  return largest;
}

int32_t argmax(const float* values, int32_t count) {
  return static_cast<int32_t>(std::max_element(values, values + count) - values);
}

namespace {

void check_hidden(const GoldenModel& golden, const GoldenPrompt& prompt,
                  const std::map<std::string, std::vector<float>>& seen) {
  for (const auto& [name, expected] : prompt.hidden) {
    ASSERT_TRUE(seen.contains(name)) << name;
    float magnitude = 0.0f;
    for (float value : expected) magnitude = std::max(magnitude, std::abs(value));
    EXPECT_LE(max_abs_difference(seen.at(name), expected), golden.hidden_tolerance * magnitude) << name;
  }
}

void check_greedy(DecoderRunner& runner, const GoldenPrompt& prompt, int32_t vocab) {
  runner.reset();
  const auto prompt_tokens = static_cast<int32_t>(prompt.ids.size());
  std::vector<float> logits = runner.step({{0, prompt.ids, prompt_tokens}});
  std::vector<int32_t> generated;
  while (generated.size() < prompt.greedy.size()) {
    generated.push_back(argmax(logits.data() + logits.size() - static_cast<size_t>(vocab), vocab));
    logits = runner.step({{0, {generated.back()}, prompt_tokens}});
  }
  EXPECT_EQ(generated, prompt.greedy);
}

// All prompts in one batch, each by pieces of its own size.
void check_batched(DecoderRunner& runner, const GoldenModel& golden, const std::vector<std::vector<float>>& alone) {
  runner.reset();
  std::vector<std::vector<float>> together(golden.prompts.size());
  const auto vocab = alone[0].size() / golden.prompts[0].ids.size();
  while (true) {
    std::vector<DecoderRunner::Piece> pieces;
    for (size_t i = 0; i < golden.prompts.size(); ++i) {
      const std::vector<int32_t>& ids = golden.prompts[i].ids;
      const auto begin = static_cast<size_t>(runner.position(static_cast<int32_t>(i)));
      const size_t count = std::min(ids.size() - begin, 2 * i + 1);
      if (count == 0) continue;
      const auto first = ids.begin() + static_cast<ptrdiff_t>(begin);
      pieces.push_back(
          {static_cast<int32_t>(i), {first, first + static_cast<ptrdiff_t>(count)}, static_cast<int32_t>(ids.size())});
    }
    if (pieces.empty()) break;
    const std::vector<float> logits = runner.step(pieces);
    size_t row = 0;
    for (const DecoderRunner::Piece& piece : pieces) {
      const auto begin = logits.begin() + static_cast<ptrdiff_t>(row * vocab);
      std::vector<float>& target = together[static_cast<size_t>(piece.sequence)];
      target.insert(target.end(), begin, begin + static_cast<ptrdiff_t>(piece.ids.size() * vocab));
      row += piece.ids.size();
    }
  }
  for (size_t i = 0; i < together.size(); ++i) {
    EXPECT_EQ(max_abs_difference(together[i], alone[i]), 0.0f) << "batched, " << golden.prompts[i].name;
  }
}

}  // namespace

void check_golden_model(const GoldenModel& golden, const std::string& device_name) {
  ASSERT_FALSE(golden.prompts.empty());
  LoadedModel loaded = load(golden.path, device_name);
  ASSERT_NE(loaded.model, nullptr);
  const int32_t vocab = loaded.model->config().vocab_size;
  DecoderRunner runner(*loaded.model, *loaded.device, static_cast<int32_t>(golden.prompts.size()), 80);
  std::vector<std::vector<float>> alone;

  for (const GoldenPrompt& prompt : golden.prompts) {
    SCOPED_TRACE(prompt.name);
    std::map<std::string, std::vector<float>> seen;
    const HiddenTap tap = [&](const std::string& name, Mat states) {
      std::vector<float>& values = seen[name];
      values.resize(static_cast<size_t>(states.rows * states.cols));
      loaded.device->download(states.data, values);
    };
    runner.reset();
    const std::vector<float> whole = runner.step({{0, prompt.ids, static_cast<int32_t>(prompt.ids.size())}}, &tap);
    EXPECT_LE(max_abs_difference(whole, prompt.logits), golden.logits_tolerance);
    for (size_t row = 0; row < prompt.ids.size(); ++row) {
      const size_t begin = row * static_cast<size_t>(vocab);
      EXPECT_EQ(argmax(&whole[begin], vocab), argmax(&prompt.logits[begin], vocab)) << "row " << row;
    }
    check_hidden(golden, prompt, seen);

    // The same tokens however the prompt is cut: equal to the last bit.
    for (size_t chunk = 1; chunk <= 5; ++chunk) {
      runner.reset();
      EXPECT_EQ(max_abs_difference(run_chunked(runner, 0, prompt.ids, chunk), whole), 0.0f) << "chunks of " << chunk;
    }
    check_greedy(runner, prompt, vocab);
    alone.push_back(whole);
  }
  check_batched(runner, golden, alone);
}

}  // namespace quern::testing
