// The operations models speak in, and the memory they work on. One Device = one piece of hardware.
//
// Contract of every operation:
//  - Same result for a row whatever other rows are in the call, for any thread count: each output element is one
//    reduction in a fixed order that depends on the reduced length only.
//  - Outputs must not overlap inputs unless the operation says "in place". Sizes are checked with QUERN_CHECK: callers
//  are
//    our own models, whose shapes were checked when the weights were bound.
//  - Matrices are float32, row-major. Operations allocate nothing after the first call of a size (scratch is kept).
//  - Called by one thread at a time (the engine's); a device uses its own thread pool inside.
// `ref/` holds the plain definition of each operation, `cpu/` the fast bodies; a test runs both on the same inputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quern/status.h"
#include "tensor/tensor_view.h"

namespace quern {

enum class Precision : uint8_t {
  kFast,   // integer dot products where the weights allow, activations quantised per block
  kExact,  // weights dequantised, float32 arithmetic; what golden vectors are compared in
};

// A matrix of activations in device memory. A view: the owner is a Buffer.
struct Mat {
  float* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;  // elements from one row to the next, >= cols

  float* row(int64_t i) const { return data + i * stride; }
  Mat slice_rows(int64_t begin, int64_t count) const { return {row(begin), count, cols, stride}; }
  Mat slice_cols(int64_t begin, int64_t count) const { return {data + begin, rows, count, stride}; }
};

// Device memory of floats, 64-byte aligned. Owner of what a Mat shows.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual float* data() const = 0;  // a device address: not for the host to follow, except on CPU devices
  virtual int64_t elements() const = 0;

  Mat mat(int64_t rows, int64_t cols) const { return {data(), rows, cols, cols}; }
};

// A weight matrix [planes, rows, cols] in the device's own packed layout (planes = experts; 1 for a plain matrix).
// y = x · Wᵀ maps cols features to rows features.
class Weight {
 public:
  virtual ~Weight() = default;
  int64_t planes = 1;
  int64_t rows = 0;
  int64_t cols = 0;
  DType dtype = DType::kF32;  // of what is held: the source's, or what pack() was told to round to
  size_t device_bytes = 0;    // memory of its own; 0 where it reads the mapped file in place
};

// Rows of a weight as they lie in a file or a host buffer: `bytes` holds `rows` rows of `cols` elements of `dtype`.
// A weight is packed from one or more of these, one after the other (shards of a fused matrix, one per expert).
struct WeightRows {
  DType dtype = DType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  const std::byte* bytes = nullptr;  // must stay valid as long as the Weight: it may be read in place
};

// How pack() is to hold a weight.
struct WeightForm {
  // NOLINTNEXTLINE(google-explicit-constructor): most weights keep their type.
  WeightForm(Precision precision_of_products, std::optional<DType> rounded_to = std::nullopt)
      : precision(precision_of_products), dtype(rounded_to) {}
  Precision precision;
  std::optional<DType> dtype;  // a type of quant/quantizer.h to round the source to; absent: as it is
};

// ---- KV cache storage ------------------------------------------------------------------------------------------

// kI16: whole numbers of 16 bits and a float32 scale for each vector of a head; what attention multiplies without a
// float. Finer than float16 where a vector's elements are alike, coarser for those that are small beside its largest.
enum class KvDType : uint8_t { kF32, kF16, kBF16, kQ8_0, kQ4_0, kI16 };

// kI16: the largest code of a vector, such that a sum of `terms` products of two codes fits 32 bits.
constexpr int32_t kv_code_max(int64_t terms) {
  int32_t root = 0;
  for (int32_t bit = 1 << 14; bit > 0; bit /= 2) {
    const int64_t wider = root + bit;
    if (wider * wider * terms <= INT32_MAX) root += bit;
  }
  return root;
}
inline constexpr int64_t kKvValueTerms = 64;  // positions whose values are added as integers: a chunk of attention

struct KvLayerSpec {
  int32_t num_kv_heads = 0;
  int32_t key_dim = 0;  // elements per head
  int32_t value_dim = 0;
  bool value_in_key =
      false;  // latent attention: the value is the first value_dim elements of the key; only keys are stored
  KvDType key_dtype = KvDType::kF16;
  KvDType value_dtype = KvDType::kF16;
};
inline constexpr int32_t kKvBlockSize = 16;  // token positions per block

// Latent attention has no integer form: its layers keep float16 where kI16 was asked for.
void keep_latent_in_floats(std::span<KvLayerSpec> layers);

// Bytes that one token takes in this layer. Q8_0: 34 bytes per 32 elements, rounded up; Q4_0: 18. I16: 2 per element
// and 4.
size_t kv_bytes_per_token(const KvLayerSpec& layer);

class KvStorage {
 public:
  virtual ~KvStorage() = default;
  std::vector<KvLayerSpec> layers;
  int32_t num_blocks = 0;
};

// One sequence's share of a step. Its `query_count` tokens are rows [query_begin, …) of the batch and stand at
// positions [context_begin, context_begin + query_count) of the sequence. blocks[p / 16] holds position p; keys and
// values up to the last query's position have been written before attention() is called.
struct SequenceSpan {
  int32_t query_begin = 0;
  int32_t query_count = 0;
  int32_t context_begin = 0;
  std::span<const int32_t> blocks;
};

struct AttentionSpec {
  int32_t num_heads = 0;         // query heads; heads h*G … h*G+G-1 share kv head h, G = num_heads / num_kv_heads
  float scale = 1.0f;            // multiplies q·k
  float softcap = 0.0f;          // > 0: s = cap * tanh(s / cap), after the scale
  int32_t window = 0;            // > 0: query at p sees keys in (p - window, p]
  const float* sinks = nullptr;  // [num_heads] or null: one more logit per head that takes weight and gives no value
  // [num_heads] or null: bfloat16(slope * bfloat16(p)) is added to q·k of the key at position p, before the scale
  // (ALiBi, arXiv 2108.12409, rounded as Falcon's official code does). Not together with softcap.
  const float* alibi = nullptr;
};

// ---- Small enums -----------------------------------------------------------------------------------------------

enum class Activation : uint8_t { kSilu, kGelu /* erf */, kGeluTanh, kQuickGelu, kRelu, kReluSquared, kTanh, kSigmoid };
enum class RopeStyle : uint8_t {
  kHalves,  // NeoX: element i pairs with i + rotary/2
  kPairs,   // original: element 2i pairs with 2i + 1
};

struct RouterSpec {
  int32_t top_k = 0;
  bool sigmoid = false;              // scores: sigmoid(logit), else softmax over all experts
  bool softmax_after_top_k = false;  // weights are a softmax over the chosen logits (gpt_oss)
  bool normalize = false;            // divide the chosen weights by their sum (+ 1e-20)
  float scale = 1.0f;                // multiplies the weights at the end
  const float* bias = nullptr;       // [experts] added to the scores for choosing only (noaux_tc)
  int32_t num_groups = 1;            // grouped routing: experts in groups, only the best top_groups groups are eligible
  int32_t top_groups = 1;
  bool group_score_top2 = false;  // a group's score: sum of its two best (noaux_tc), else its best
};

// Which rows of x go to which expert: the inverse of the router's choice, made by the caller per step.
struct ExpertRows {
  int32_t expert = 0;
  std::span<const int32_t> source_rows;  // rows of x
  std::span<const int32_t> target_rows;  // rows of out, same length
};

// ---- The device ------------------------------------------------------------------------------------------------

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string_view name() const = 0;  // "cpu (avx2, 2 threads)", "reference"

  // Memory. Errors: kResourceExhausted.
  virtual Result<std::unique_ptr<Buffer>> allocate(int64_t elements) = 0;
  virtual Result<std::unique_ptr<KvStorage>> allocate_kv(std::span<const KvLayerSpec> layers, int32_t num_blocks) = 0;
  // Whether device addresses are host addresses: then operations may also write to memory of the host.
  virtual bool works_in_host_memory() const { return false; }
  // What keys and values are best kept as where nothing is asked and speed counts.
  virtual KvDType fast_kv_dtype() const { return KvDType::kF16; }
  virtual void upload(std::span<const float> host, float* device) = 0;
  virtual void download(const float* device, std::span<float> host) = 0;

  // Packs `planes` matrices whose rows are the concatenation of `parts` (equal dtype and cols; total rows divisible by
  // planes). Every dtype of tensor/dtype.h that is floating or quantised works in both precisions. A weight that is
  // rounded gives the results, bit for bit, of one whose source had been rounded. Errors: kInvalidArgument for rows
  // that do not fit together or that the type cannot hold (a NaN, a number over its range), kResourceExhausted.
  virtual Result<std::unique_ptr<Weight>> pack(std::span<const WeightRows> parts, int64_t planes,
                                               const WeightForm& form) = 0;

  // out[t] = row ids[t] of the matrix, dequantised. Always exact to the stored values. Not for a table that was rounded
  // to F16, which may be held for products only.
  virtual void embed(const Weight& table, std::span<const int32_t> ids, Mat out) = 0;  // out [T, cols]

  // out[i] = x · w[i]ᵀ (+ bias[i]) for several weights that read the same x (its quantisation is shared).
  struct MatmulTarget {
    const Weight* weight = nullptr;
    const float* bias = nullptr;  // [rows] or null
    Mat out;                      // [T, rows]
  };
  virtual void matmul(Mat x, std::span<const MatmulTarget> targets) = 0;  // x [T, cols]
  // The same per expert: out[target_rows] = x[source_rows] · plane(expert)ᵀ (+ bias[expert]). bias [planes, rows] or
  // null.
  virtual void matmul_experts(Mat x, const Weight& weight, const float* bias, std::span<const ExpertRows> groups,
                              Mat out) = 0;

  // Norms over each row, or over each of the `cols / width` slices of a row where width > 0 divides cols.
  // weight, bias: [width or cols] or null (no affine part). weight_offset is added to each weight (gemma: 1). out may
  // be x.
  struct NormSpec {
    const float* weight = nullptr;
    const float* bias = nullptr;
    float epsilon = 1e-5f;
    float weight_offset = 0.0f;
    int64_t width = 0;
    bool weight_per_slice = false;  // weight is [cols]: each slice has its own (cohere's per-head norms)
  };
  virtual void rms_norm(Mat x, const NormSpec& spec, Mat out) = 0;
  virtual void layer_norm(Mat x, const NormSpec& spec, Mat out) = 0;

  // Rotates, in place, the elements [offset, offset + 2 * half) of each head of x [T, heads * head_dim].
  // cosine, sine: [T, half].
  struct RopeSpec {
    int32_t head_dim = 0;
    int32_t offset = 0;
    RopeStyle style = RopeStyle::kHalves;
  };
  virtual void rope(Mat x, const RopeSpec& spec, Mat cosine, Mat sine) = 0;

  // Stores key and value rows at slots (block * 16 + offset). key [T, kv_heads * key_dim], value [T, kv_heads *
  // value_dim] (an empty Mat where value_in_key).
  virtual void write_kv(Mat key, Mat value, std::span<const int32_t> slots, KvStorage& storage, int32_t layer) = 0;
  // Copies one block's keys and values, all layers (copy on write).
  virtual void copy_kv_block(KvStorage& storage, int32_t source, int32_t target) = 0;

  // Causal attention over the paged cache. query [T, heads * key_dim], out [T, heads * value_dim].
  virtual void attention(Mat query, const KvStorage& storage, int32_t layer, std::span<const SequenceSpan> sequences,
                         const AttentionSpec& spec, Mat out) = 0;
  // Bidirectional attention of encoders, no cache: each span attends inside itself (context_begin and blocks unused).
  // spec.window > 0: |query - key| < window. key, value [T, kv_heads * dim].
  virtual void attention_full(Mat query, Mat key, Mat value, int32_t num_kv_heads,
                              std::span<const SequenceSpan> sequences, const AttentionSpec& spec, Mat out) = 0;

  // Elementwise. `out` may be an input.
  virtual void activate(Mat x, Activation kind, Mat out) = 0;
  virtual void activate_multiply(Mat gate, Mat up, Activation kind, Mat out) = 0;  // out = f(gate) * up
  // gpt_oss: gate = min(gate, limit), up = clamp(up, ±limit), out = gate * sigmoid(1.702 * gate) * (up + 1)
  virtual void swiglu_clamped(Mat gate, Mat up, float limit, Mat out) = 0;
  virtual void add(Mat x, Mat y, float y_scale, Mat out) = 0;  // out = x + y_scale * y
  virtual void add_row(Mat x, const float* row, Mat out) = 0;  // out = x + row for every row
  virtual void scale(Mat x, float factor, Mat out) = 0;
  virtual void scale_rows(Mat x, std::span<const float> factors, Mat out) = 0;  // host factors [T]
  virtual void softcap(Mat x, float cap, Mat out) = 0;                          // cap * tanh(x / cap)
  virtual void gather_rows(Mat x, std::span<const int32_t> rows, Mat out) = 0;  // out[i] = x[rows[i]]
  virtual void copy(Mat x, Mat out) = 0;

  // Mixture of experts. Choices and weights come back to the host, best first: ids, weights [T * top_k].
  virtual void route(Mat logits, const RouterSpec& spec, std::span<int32_t> ids, std::span<float> weights) = 0;
  // out[t] = Σ_k weights[t * top_k + k] * x[t * top_k + k], k ascending; x [T * top_k, cols].
  virtual void combine_experts(Mat x, std::span<const float> weights, int32_t top_k, Mat out) = 0;
};

// The plain reference: scalar loops, one thread, no packing.
std::unique_ptr<Device> make_reference_device();

struct CpuDeviceOptions {
  int32_t num_threads = 0;  // 0: one per physical core this process may use
  std::string isa;          // empty: the best the machine has; else "amx", "avx512", "avx2", "sse4", "neon", "scalar" —
                            // kUnsupported if absent
};
Result<std::unique_ptr<Device>> make_cpu_device(const CpuDeviceOptions& options);

}  // namespace quern
