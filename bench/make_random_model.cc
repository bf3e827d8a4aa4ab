// A llama of about a billion parameters with random weights, for measuring speed: nothing about its answers means
// anything.
//
//   make_random_model --tokenizer FILE.gguf --type q4_0|q4_k_m|q8_0|f16|bf16 [--layers 22] -o OUT.gguf
//
// The shape: 2048 wide, 5632 in the middle, 32 heads over 4 kv heads, 22 layers, tied embeddings (1.07 B with a
// vocabulary of 49,152). Tokenizer metadata is copied from FILE, so that other engines load the model too. Types are
// those that llama.cpp's quantiser would choose (src/llama-quant.cpp): q4_0 and q4_k_m keep the tied embedding in Q6_K;
// q4_k_m also half of the layers' attn_v and ffn_down.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/status.h"
#include "formats/gguf/gguf_file.h"
#include "formats/gguf/gguf_writer.h"
#include "tensor/dequantize.h"

namespace quern {
namespace {

constexpr int64_t kHidden = 2048;
constexpr int64_t kMiddle = 5632;
constexpr int64_t kHeads = 32;
constexpr int64_t kKvHeads = 4;

struct Options {
  std::string tokenizer, type, out;
  int64_t layers = 22;
};

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  if (argc % 2 == 0) return std::nullopt;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--tokenizer") {
      options.tokenizer = value;
    } else if (name == "--type") {
      options.type = value;
    } else if (name == "--layers") {
      options.layers = std::atoll(value.c_str());
    } else if (name == "-o") {
      options.out = value;
    } else {
      return std::nullopt;
    }
  }
  if (options.tokenizer.empty() || options.out.empty() || options.layers < 1) return std::nullopt;
  return options;
}

// How the types of a mix are chosen, and llama.cpp's number for it.
struct Mix {
  DType matrix;
  DType embed;
  bool is_k_m;
  uint64_t file_type;
};

std::optional<Mix> mix_of(std::string_view type) {
  if (type == "q4_0") return Mix{DType::kQ4_0, DType::kQ6K, false, 2};
  if (type == "q4_k_m") return Mix{DType::kQ4K, DType::kQ6K, true, 15};
  if (type == "q8_0") return Mix{DType::kQ8_0, DType::kQ8_0, false, 7};
  if (type == "f16") return Mix{DType::kF16, DType::kF16, false, 1};
  if (type == "bf16") return Mix{DType::kBF16, DType::kBF16, false, 32};
  return std::nullopt;
}

// The layers that q4_k_m gives more bits: the first and the last eighth, and every third between.
bool more_bits(int64_t layer, int64_t layers) {
  return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

std::vector<TensorView> tensors_of(const Mix& mix, int64_t layers, int64_t vocab) {
  std::vector<TensorView> tensors;
  const auto add = [&](std::string name, DType dtype, Shape shape) {
    tensors.push_back({std::move(name), dtype, std::move(shape), {}});
  };
  const int64_t kv_width = kHidden / kHeads * kKvHeads;
  add("token_embd.weight", mix.embed, {vocab, kHidden});
  for (int64_t i = 0; i < layers; ++i) {
    const DType better = mix.is_k_m && more_bits(i, layers) ? DType::kQ6K : mix.matrix;
    const std::string block = fmt::format("blk.{}.", i);
    add(block + "attn_norm.weight", DType::kF32, {kHidden});
    add(block + "attn_q.weight", mix.matrix, {kHidden, kHidden});
    add(block + "attn_k.weight", mix.matrix, {kv_width, kHidden});
    add(block + "attn_v.weight", better, {kv_width, kHidden});
    add(block + "attn_output.weight", mix.matrix, {kHidden, kHidden});
    add(block + "ffn_norm.weight", DType::kF32, {kHidden});
    add(block + "ffn_gate.weight", mix.matrix, {kMiddle, kHidden});
    add(block + "ffn_up.weight", mix.matrix, {kMiddle, kHidden});
    add(block + "ffn_down.weight", better, {kHidden, kMiddle});
  }
  add("output_norm.weight", DType::kF32, {kHidden});
  return tensors;
}

GgufMetadata metadata_of(const GgufMetadata& tokenizer, const Mix& mix, int64_t layers, int64_t vocab) {
  GgufMetadata metadata;
  const auto text = [&](const char* key, std::string value) {
    metadata.set(key, {static_cast<uint32_t>(GgufType::kString), std::move(value)});
  };
  const auto number = [&](const char* key, int64_t value) {
    metadata.set(key, {static_cast<uint32_t>(GgufType::kU32), static_cast<uint64_t>(value)});
  };
  const auto real = [&](const char* key, double value) {
    metadata.set(key, {static_cast<uint32_t>(GgufType::kF32), value});
  };
  text("general.architecture", "llama");
  text("general.name", "random");
  number("general.file_type", static_cast<int64_t>(mix.file_type));
  number("llama.vocab_size", vocab);
  number("llama.context_length", 16384);
  number("llama.embedding_length", kHidden);
  number("llama.block_count", layers);
  number("llama.feed_forward_length", kMiddle);
  number("llama.attention.head_count", kHeads);
  number("llama.attention.head_count_kv", kKvHeads);
  number("llama.rope.dimension_count", kHidden / kHeads);
  real("llama.rope.freq_base", 10000.0);
  real("llama.attention.layer_norm_rms_epsilon", 1e-5);
  for (const auto& [key, value] : tokenizer.pairs()) {
    if (key.starts_with("tokenizer.")) metadata.set(key, value);
  }
  return metadata;
}

// Rows are drawn from a few random ones per type and length: quantising a billion numbers takes minutes.
class RandomRows {
 public:
  Status produce(const TensorView& tensor, const ByteSink& sink) {
    const int64_t cols = tensor.shape.back();
    const int64_t rows = tensor.elements() / cols;
    QUERN_ASSIGN(const std::vector<std::byte>* pool, pool_of(tensor.dtype, cols));
    const size_t row_bytes = pool->size() / kDistinct;
    std::vector<std::byte> bytes;
    bytes.reserve(static_cast<size_t>(rows) * row_bytes);
    for (int64_t r = 0; r < rows; ++r) {
      const auto* row = pool->data() + rng_() % kDistinct * row_bytes;
      bytes.insert(bytes.end(), row, row + row_bytes);
    }
    return sink(bytes);
  }

 private:
  static constexpr size_t kDistinct = 61;

  Result<const std::vector<std::byte>*> pool_of(DType dtype, int64_t cols) {
    std::vector<std::byte>& pool = pools_[{dtype, cols}];
    if (!pool.empty()) return &pool;
    const size_t row_bytes = *dtype_bytes(dtype, static_cast<uint64_t>(cols));
    pool.resize(kDistinct * row_bytes);
    // Norm weights, the only F32, are near one; a product of random rows keeps the size of what it is given.
    const bool is_norm = dtype == DType::kF32;
    std::normal_distribution<float> normal(is_norm ? 1.0f : 0.0f,
                                           is_norm ? 0.02f : 1.0f / std::sqrt(static_cast<float>(cols)));
    std::vector<float> row(static_cast<size_t>(cols));
    for (size_t i = 0; i < kDistinct; ++i) {
      for (float& x : row) x = normal(rng_);
      QUERN_TRY(quantize(dtype, row.data(), pool.data() + i * row_bytes, cols));
    }
    return &pool;
  }

  std::mt19937 rng_{1};
  std::map<std::pair<DType, int64_t>, std::vector<std::byte>> pools_;
};

Status make(const Options& options, const Mix& mix) {
  QUERN_ASSIGN(const auto tokenizer, GgufFile::open(options.tokenizer));
  QUERN_ASSIGN(const auto* tokens, tokenizer->metadata().get_strings("tokenizer.ggml.tokens"));
  const auto vocab = static_cast<int64_t>(tokens->size());
  const std::vector<TensorView> tensors = tensors_of(mix, options.layers, vocab);
  RandomRows rows;
  return write_gguf(options.out, metadata_of(tokenizer->metadata(), mix, options.layers, vocab), tensors,
                    [&](size_t i, const ByteSink& sink) { return rows.produce(tensors[i], sink); });
}

}  // namespace
}  // namespace quern

int main(int argc, char** argv) {
  const auto options = quern::parse(argc, argv);
  const auto mix = options ? quern::mix_of(options->type) : std::nullopt;
  if (!mix) {
    std::fputs("usage: see the head of make_random_model.cc\n", stderr);
    return 2;
  }
  if (const quern::Status status = quern::make(*options, *mix); !status) {
    std::fprintf(stderr, "make_random_model: %s\n", status.error().message.c_str());
    return 1;
  }
  return 0;
}
