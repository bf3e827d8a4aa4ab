// What a model is, once config.json or GGUF metadata has been read and checked: one structure for all families.
// Families differ by these values; only what cannot be said here is a file of its own. Every number is range-checked by
// its reader (config_reader.h); relations between numbers are checked by check_model_config().
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/device.h"

namespace quern {

enum class ModelKind : uint8_t { kDecoder, kEncoder, kClassifier };

// Whether a tensor that a family may have is there. kIfPresent: the file decides (GGUF metadata does not speak of
// biases).
enum class Presence : uint8_t { kAbsent, kRequired, kIfPresent };

enum class NormKind : uint8_t { kRms, kLayer };
struct NormConfig {
  NormKind kind = NormKind::kRms;
  float epsilon = 1e-5f;
  float weight_offset = 0.0f;  // gemma checkpoints store w and mean 1 + w
  bool affine = true;          // false: no weight at all (olmo)
  Presence bias = Presence::kAbsent;
};

// Where the norms of a layer stand; x is the residual stream, A attention, M the feed-forward part.
enum class BlockLayout : uint8_t {
  kPre,             // x += A(norm x);        x += M(norm x)
  kPost,            // x += norm A(x);        x += norm M(x)          (olmo2)
  kSandwich,        // x += norm A(norm x);   x += norm M(norm x)     (gemma2, glm4)
  kParallel,        // x += A(norm x) + M(norm' x)                    (gpt_neox)
  kParallelShared,  // the same with one norm                         (phi, cohere, falcon)
};

// Normalisation of queries and keys, before the rotation.
enum class QkNorm : uint8_t {
  kNone,
  kPerHead,         // each head by itself, weight [head_dim]                      (qwen3, gemma3)
  kPerHeadWeights,  // each head by itself, weight [heads, head_dim]               (cohere, stablelm)
  kWholeRow,        // all heads together, weight [heads * head_dim]               (olmo2)
};

// How a file stores the query, key and value projections.
enum class QkvLayout : uint8_t {
  kSeparate,
  kFused,          // one matrix: all query rows, all key rows, all value rows    (phi3, gpt2)
  kFusedPerGroup,  // one matrix: per kv head its query heads, its key, its value (gpt_neox, internlm2, falcon)
};

// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1). kv_lora_rank > 0 switches it on.
struct MlaConfig {
  int32_t q_lora_rank = 0;  // 0: queries come from one full matrix
  int32_t kv_lora_rank = 0;
  int32_t nope_dim = 0;        // part of a query/key head that is not rotated
  int32_t rope_dim = 0;        // part that is; its key is shared by all heads
  float norm_epsilon = 1e-6f;  // of the norms of both latents: a constant of the models, whatever rms_norm_eps says
};

struct AttentionConfig {
  int32_t num_heads = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;                 // of queries and keys
  int32_t value_dim = 0;                // of values
  float scale = 0.0f;                   // multiplies q·k
  bool scale_by_inverse_layer = false;  // and then divided by the layer's number, counted from 1 (gpt2)
  float softcap = 0.0f;                 // 0: none
  std::vector<int32_t> window;          // [layers] sliding window, 0: none
  QkNorm qk_norm = QkNorm::kNone;
  NormConfig qk_norm_config;
  bool qk_norm_after_rope = false;
  QkvLayout layout = QkvLayout::kSeparate;
  bool rows_in_pairs = false;  // the file's query and key rows were reordered: rotary pairs lie side by side
  Presence qkv_bias = Presence::kAbsent;
  Presence output_bias = Presence::kAbsent;
  bool sinks = false;        // one learned logit per head (gpt_oss)
  std::vector<float> alibi;  // [heads] slopes of the position biases, empty: none (falcon-rw)
  MlaConfig mla;
};

enum class RopeScaling : uint8_t {
  kNone,
  kLinear,    // positions divided by factor
  kDynamic,   // "dynamic NTK": the base grows with the length of the sequence
  kLlama3,    // low frequencies divided by factor, a ramp between
  kYarn,      // arXiv 2309.00071
  kLongRope,  // arXiv 2402.13753: two tables of divisors, chosen by the length of the sequence
};
struct RopeConfig {
  float theta = 10000.0f;
  int32_t rotary_dim = 0;  // elements of a head that are rotated, even
  RopeStyle style = RopeStyle::kHalves;
  RopeScaling scaling = RopeScaling::kNone;
  float factor = 1.0f;
  int32_t original_context = 0;      // positions before scaling (dynamic, llama3, yarn, longrope)
  float attention_factor = 1.0f;     // multiplies cosine and sine (yarn, longrope)
  float beta_fast = 32.0f;           // yarn
  float beta_slow = 1.0f;            // yarn
  bool truncate = true;              // yarn: the correction range is rounded to whole dimensions
  float low_freq_factor = 1.0f;      // llama3
  float high_freq_factor = 4.0f;     // llama3
  std::vector<float> short_factors;  // [rotary_dim / 2] divisors of the frequencies; also GGUF's rope_freqs
  std::vector<float> long_factors;   // [rotary_dim / 2] longrope beyond original_context
};

enum class GateUpLayout : uint8_t {
  kSeparate,
  kFused,  // one matrix: gate rows, then up rows
};
struct MlpConfig {
  int32_t intermediate_size = 0;
  bool gated = true;  // down(f(gate x) * up x), else down(f(up x))
  Activation activation = Activation::kSilu;
  GateUpLayout layout = GateUpLayout::kSeparate;
  Presence bias = Presence::kAbsent;
};

struct MoeConfig {
  int32_t num_experts = 0;  // 0: no layer has experts
  int32_t intermediate_size = 0;
  int32_t shared_intermediate_size = 0;         // 0: no shared expert
  bool shared_gate = false;                     // the shared expert is multiplied by sigmoid(w · x) (qwen2_moe)
  std::vector<uint8_t> is_moe;                  // [layers]
  RouterSpec router;                            // bias stays null here
  Presence router_bias = Presence::kAbsent;     // added to the logits
  Presence selection_bias = Presence::kAbsent;  // added to the scores for choosing only
  Presence expert_bias = Presence::kAbsent;
  float clamp_limit = 0.0f;  // > 0: the clamped swiglu of gpt_oss
};

struct ModelConfig {
  std::string family;  // "llama", "qwen3_moe", "deepseek_v3": Hugging Face's model_type
  ModelKind kind = ModelKind::kDecoder;
  int32_t vocab_size = 0;
  int32_t hidden_size = 0;
  int32_t num_layers = 0;
  int32_t context_length = 0;    // positions the model was made for, rope scaling counted in
  std::vector<int32_t> eos_ids;  // from generation_config, config or GGUF (eos, eot)
  int32_t bos_id = -1;

  BlockLayout block = BlockLayout::kPre;
  NormConfig norm;
  AttentionConfig attention;
  std::vector<RopeConfig> ropes;   // usually one; gemma3 has a global and a local one; none: learned positions
  std::vector<int8_t> layer_rope;  // [layers] index into ropes, -1: no rotation (smollm3)
  MlpConfig mlp;
  MoeConfig moe;

  bool tied_output = false;  // the output projection is the embedding table
  Presence output_bias = Presence::kAbsent;
  int32_t learned_positions = 0;  // > 0: rows of a table added to the embeddings (gpt2)
  float embedding_scale = 1.0f;
  float residual_scale = 1.0f;  // multiplies what attention and feed-forward add
  float logits_scale = 1.0f;
  float logits_softcap = 0.0f;  // 0: none
};

// Bytes of KV cache that one token takes in all layers.
size_t kv_bytes_per_token(const ModelConfig& config, KvDType key, KvDType value);
std::vector<KvLayerSpec> kv_layer_specs(const ModelConfig& config, KvDType key, KvDType value);

}  // namespace quern
