// For tests: a decoder over a KV cache of its own, fed in pieces of any size, and the golden results it is compared
// with.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "models/loader.h"

namespace quern::testing {

struct GoldenPrompt {
  std::string name;
  std::vector<int32_t> ids;
  std::vector<int32_t> greedy;
  std::vector<float> logits;                         // [n, vocab]
  std::map<std::string, std::vector<float>> hidden;  // by tap name; empty for most prompts
};
struct GoldenModel {
  std::filesystem::path path;  // of the model
  std::vector<GoldenPrompt> prompts;
  float logits_tolerance = 2e-4f;
  float hidden_tolerance = 2e-5f;  // times the largest magnitude
};

// `folder` has golden.json and golden.safetensors for the model at `path` (usually the folder itself).
GoldenModel read_golden_folder(const std::filesystem::path& folder, const std::filesystem::path& path);
// The entry of `file` in a golden.json that lists GGUF files; results of the model it came from unless it has its own.
GoldenModel read_golden_gguf(const std::filesystem::path& list, const std::string& file);

struct LoadedModel {
  std::unique_ptr<Device> device;
  std::unique_ptr<ModelSource> source;
  std::unique_ptr<DecoderModel> model;
};
// device_name: "reference" or "cpu". Fails the test with the error's message.
LoadedModel load(const std::filesystem::path& path, const std::string& device_name,
                 const LoadOptions& options = Precision::kExact);

// Sequences over one KV storage. Blocks are handed out in a scrambled order, so that a wrong block table shows.
class DecoderRunner {
 public:
  DecoderRunner(DecoderModel& model, Device& device, int32_t num_sequences, int32_t tokens_max);

  struct Piece {
    int32_t sequence = 0;
    std::vector<int32_t> ids;
    int32_t prompt_tokens = 0;
  };
  // One step of several pieces; logits of every row, [rows, vocab], in the order of the pieces.
  std::vector<float> step(const std::vector<Piece>& pieces, const HiddenTap* tap = nullptr);

  int32_t position(int32_t sequence) const { return positions_[static_cast<size_t>(sequence)]; }
  void reset();

 private:
  DecoderModel& model_;
  std::unique_ptr<KvStorage> kv_;
  std::vector<std::vector<int32_t>> blocks_;
  std::vector<int32_t> positions_;
};

// Whole prompt, chunks of `chunk` tokens.
std::vector<float> run_chunked(DecoderRunner& runner, int32_t sequence, const std::vector<int32_t>& ids, size_t chunk);

float max_abs_difference(const std::vector<float>& a, const std::vector<float>& b);
int32_t argmax(const float* values, int32_t count);

// The checks every decoder fixture goes through.
void check_golden_model(const GoldenModel& golden, const std::string& device_name);

}  // namespace quern::testing
