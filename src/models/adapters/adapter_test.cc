// A model with an adapter is the model whose weights have B · A added.
#include "models/adapters/adapter.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "base/status.h"
#include "formats/safetensors/safetensors_writer.h"
#include "models/golden_runner.h"
#include "tensor/dequantize.h"

namespace quern::testing {
namespace {

const std::filesystem::path kGolden = std::filesystem::path(QUERN_TEST_DATA) / "golden";
constexpr int32_t kRank = 4;
constexpr float kAlpha = 10;

struct Matrix {
  std::string name;
  Shape shape;
  std::vector<float> values;
  TensorView view() const {
    return {.name = name, .dtype = DType::kF32, .shape = shape, .bytes = std::as_bytes(std::span(values))};
  }
};

Matrix random_matrix(std::string name, int64_t rows, int64_t cols, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 0.2f);
  Matrix matrix{std::move(name), {rows, cols}, std::vector<float>(static_cast<size_t>(rows * cols))};
  for (float& value : matrix.values) value = normal(random);
  return matrix;
}

std::filesystem::path scratch(const std::string& name) {
  const auto path = std::filesystem::path(::testing::TempDir()) /
                    (name + "_" + ::testing::UnitTest::GetInstance()->current_test_info()->name());
  std::filesystem::remove_all(path);
  return path;
}

void write_tensors(const std::filesystem::path& path, const std::vector<Matrix>& matrices) {
  std::vector<TensorView> views;
  for (const Matrix& matrix : matrices) views.push_back(matrix.view());
  ASSERT_TRUE(write_safetensors(path, views));
}

void write_config(const std::filesystem::path& folder, const std::string& more = "") {
  std::ofstream(folder / "adapter_config.json")
      << R"({"peft_type":"LORA","r":4,"lora_alpha":10,"target_modules":["q_proj"])" << more << "}";
}

// Adapter matrices for every projection of the llama fixture, under PEFT's names.
std::vector<Matrix> peft_matrices(const SafetensorsFile& base) {
  std::vector<Matrix> matrices;
  uint32_t seed = 1;
  for (const TensorView& view : base.tensors()) {
    if (!view.name.ends_with("_proj.weight")) continue;
    const std::string stem = "base_model.model." + view.name.substr(0, view.name.size() - 7);
    matrices.push_back(random_matrix(stem + ".lora_A.weight", kRank, view.shape[1], seed++));
    matrices.push_back(random_matrix(stem + ".lora_B.weight", view.shape[0], kRank, seed++));
  }
  return matrices;
}

const Matrix& named(const std::vector<Matrix>& matrices, const std::string& name) {
  for (const Matrix& matrix : matrices) {
    if (matrix.name == name) return matrix;
  }
  ADD_FAILURE() << name;
  return matrices.front();
}

// The fixture's folder with scale * B · A added to each projection.
std::filesystem::path write_merged(const std::filesystem::path& original, const SafetensorsFile& base,
                                   const std::vector<Matrix>& adapter, float scale) {
  const auto folder = scratch("merged");
  std::filesystem::copy(original, folder);
  std::vector<Matrix> merged;
  for (const TensorView& view : base.tensors()) {
    Matrix matrix{view.name, view.shape, std::vector<float>(static_cast<size_t>(view.elements()))};
    dequantize(view.dtype, view.bytes.data(), matrix.values.data(), view.elements());
    if (view.name.ends_with("_proj.weight")) {
      const std::string stem = "base_model.model." + view.name.substr(0, view.name.size() - 7);
      const Matrix& a = named(adapter, stem + ".lora_A.weight");
      const Matrix& b = named(adapter, stem + ".lora_B.weight");
      for (int64_t row = 0; row < view.shape[0]; ++row) {
        for (int64_t col = 0; col < view.shape[1]; ++col) {
          double sum = 0;
          for (int64_t r = 0; r < kRank; ++r)
            sum += double(b.values[row * kRank + r]) * a.values[r * view.shape[1] + col];
          matrix.values[static_cast<size_t>(row * view.shape[1] + col)] += static_cast<float>(scale * sum);
        }
      }
    }
    merged.push_back(std::move(matrix));
  }
  std::filesystem::remove(folder / "model.safetensors");
  write_tensors(folder / "model.safetensors", merged);
  return folder;
}

const std::vector<int32_t> kIds{5, 9, 33, 40, 7, 100, 61, 12, 3, 90};

// One step of several sequences, each with its adapter or none; logits of every row.
struct Part {
  const Adapter* adapter;
  float scale;
};
std::vector<float> run(LoadedModel& loaded, const std::vector<Part>& parts) {
  auto kv = std::move(*loaded.device->allocate_kv(loaded.model->kv_layers(KvDType::kF32, KvDType::kF32),
                                                  static_cast<int32_t>(parts.size())));
  std::vector<int32_t> ids, slots, rows, blocks(parts.size());
  std::vector<BatchSequence> sequences;
  for (size_t i = 0; i < parts.size(); ++i) {
    blocks[i] = static_cast<int32_t>(i);
    sequences.push_back({.span = {.query_begin = static_cast<int32_t>(ids.size()),
                                  .query_count = static_cast<int32_t>(kIds.size()),
                                  .context_begin = 0,
                                  .blocks = std::span(blocks).subspan(i, 1)},
                         .prompt_tokens = static_cast<int32_t>(kIds.size()),
                         .adapter = parts[i].adapter,
                         .adapter_scale = parts[i].scale});
    for (size_t p = 0; p < kIds.size(); ++p) {
      rows.push_back(static_cast<int32_t>(ids.size()));
      ids.push_back(kIds[p]);
      slots.push_back(static_cast<int32_t>(i * kKvBlockSize + p));
    }
  }
  std::vector<float> logits(ids.size() * static_cast<size_t>(loaded.model->config().vocab_size));
  EXPECT_TRUE(loaded.model->forward({.ids = ids, .slots = slots, .sequences = sequences, .logits_rows = rows}, *kv,
                                    logits, nullptr));
  return logits;
}

std::shared_ptr<const Adapter> open(const std::filesystem::path& path, LoadedModel& loaded) {
  auto data = read_adapter(path, loaded.model->config());
  EXPECT_TRUE(data) << data.error().message;
  return *Adapter::create(std::move(*data), *loaded.device);
}

TEST(AdapterTest, EqualsTheMergedModelAndLeavesNeighboursAlone) {
  const auto original = kGolden / "models" / "llama";
  auto base_file = *SafetensorsFile::open(original / "model.safetensors");
  const auto matrices = peft_matrices(*base_file);
  const auto folder = scratch("peft");
  std::filesystem::create_directories(folder);
  write_tensors(folder / "adapter_model.safetensors", matrices);
  write_config(folder);
  const auto merged_path = write_merged(original, *base_file, matrices, kAlpha / kRank * 0.5f);
  for (const char* device : {"reference", "cpu"}) {
    LoadedModel base = load(original, device), merged = load(merged_path, device);
    const auto adapter = open(folder, base);
    EXPECT_EQ(adapter->rank_max(), kRank);
    const auto plain = run(base, {{nullptr, 1}});
    const auto adapted = run(base, {{adapter.get(), 0.5f}});
    EXPECT_LT(max_abs_difference(adapted, run(merged, {{nullptr, 1}})), 2e-4f);
    EXPECT_GT(max_abs_difference(adapted, plain), 0.05f);
    const auto crowd =
        run(base, {{nullptr, 1}, {adapter.get(), 0.5f}, {adapter.get(), 0.5f}, {adapter.get(), 2}, {nullptr, 1}});
    const size_t n = plain.size();
    const auto part = [&](size_t i) {
      return std::vector(crowd.begin() + ptrdiff_t(i * n), crowd.begin() + ptrdiff_t((i + 1) * n));
    };
    EXPECT_EQ(part(0), plain);
    EXPECT_EQ(part(1), adapted);
    EXPECT_EQ(part(2), adapted);
    EXPECT_EQ(part(4), plain);
    EXPECT_NE(part(3), adapted);
  }
}

TEST(AdapterTest, GgufBaseWithReorderedHeadsGivesTheSame) {
  auto base_file = *SafetensorsFile::open(kGolden / "models" / "llama" / "model.safetensors");
  const auto matrices = peft_matrices(*base_file);
  const auto folder = scratch("peft");
  std::filesystem::create_directories(folder);
  write_tensors(folder / "adapter_model.safetensors", matrices);
  write_config(folder);
  LoadedModel hf = load(kGolden / "models" / "llama", "reference");
  LoadedModel gguf = load(kGolden / "gguf" / "llama-f32.gguf", "reference");
  const auto hf_logits = run(hf, {{open(folder, hf).get(), 1}});
  EXPECT_LT(max_abs_difference(hf_logits, run(gguf, {{open(folder, gguf).get(), 1}})), 2e-4f);
}

std::string error_of(const std::filesystem::path& path, const LoadedModel& loaded) {
  auto data = read_adapter(path, loaded.model->config());
  if (data) return "";
  const std::string& message = data.error().message;
  return message.substr(message.find(": ") + 2);
}

TEST(AdapterTest, WhatDoesNotFitIsRefusedByName) {
  LoadedModel base = load(kGolden / "models" / "llama", "reference");
  const ModelConfig& config = base.model->config();
  const auto folder = scratch("peft");
  EXPECT_EQ(error_of(folder, base), "no such file or folder");
  std::filesystem::create_directories(folder);
  EXPECT_EQ(error_of(folder, base), "No such file or directory");
  write_config(folder);
  const std::string stem = "base_model.model.model.layers.1.self_attn.q_proj";
  const int64_t rows = int64_t{config.attention.num_heads} * config.attention.head_dim;
  const auto with = [&](std::vector<Matrix> matrices) {
    write_tensors(folder / "adapter_model.safetensors", matrices);
    return error_of(folder, base);
  };
  const Matrix a = random_matrix(stem + ".lora_A.weight", 4, config.hidden_size, 1);
  const Matrix b = random_matrix(stem + ".lora_B.weight", rows, 4, 2);
  EXPECT_EQ(with({a, b}), "");
  EXPECT_EQ(with({a}), "layer 1 q_proj: has only one of A and B");
  EXPECT_NE(with({a, random_matrix(b.name, rows, 5, 2)}).find("do not fit a projection of"), std::string::npos);
  EXPECT_NE(with({a, random_matrix(b.name, rows + 2, 4, 2)}).find("do not fit a projection of"), std::string::npos);
  Matrix nan = b;
  nan.values[7] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(with({a, nan}), "layer 1 q_proj: has values that are not finite");
  Matrix far_a = a, far_b = b;
  far_a.name = "base_model.model.model.layers.99.self_attn.q_proj.lora_A.weight";
  far_b.name = "base_model.model.model.layers.99.self_attn.q_proj.lora_B.weight";
  EXPECT_EQ(with({far_a, far_b}), fmt::format("layer 99 q_proj: the model has {} layers", config.num_layers));
  Matrix head = a;
  head.name = "base_model.model.lm_head.lora_A.weight";
  EXPECT_EQ(with({a, b, head}), "tensor " + head.name + " is no LoRA of a layer's projection");
  write_config(folder, R"(,"use_dora":true)");
  EXPECT_EQ(with({a, b}), "use_dora");
  std::ofstream(folder / "adapter_config.json") << "{";
  EXPECT_NE(with({a, b}).find("not JSON"), std::string::npos);
}

}  // namespace
}  // namespace quern::testing
