// Scaled dot-product attention (Vaswani et al. 2017) over a cache in pages of 16 positions.
#include <algorithm>
#include <cmath>
#include <new>

#include "base/status.h"
#include "kernels/checks.h"
#include "kernels/host_memory.h"
#include "kernels/ref/reference_device.h"
#include "tensor/dequantize.h"

namespace quern {
namespace {

// Holds each element as the float32 that its storage type would give back.
class ReferenceKv final : public KvStorage {
 public:
  struct Layer {
    std::vector<float> keys;    // [num_blocks * 16, kv_heads, key_dim]
    std::vector<float> values;  // [num_blocks * 16, kv_heads, value_dim]; empty where value_in_key
  };
  std::vector<Layer> data;
};

// A finite value never becomes infinite: an infinite value times a weight of 0 would be NaN.
float round_f16(float v) {
  return f16_to_f32(f32_to_f16(std::clamp(v, -65504.0f, 65504.0f)));
}

// 32 elements share one float16 scale d = max|x| / 127; q = x / d to nearest even.
void round_q8_0(const float* source, float* target, int64_t count) {
  float max = 0;
  for (int64_t i = 0; i < count; ++i) max = std::max(max, std::abs(source[i]));
  const float d = f16_to_f32(f32_to_f16(std::min(max / 127.0f, 65504.0f)));
  const float inverse = d > 0 ? 1.0f / d : 0.0f;
  for (int64_t i = 0; i < count; ++i) {
    target[i] = std::clamp(std::nearbyint(source[i] * inverse), -127.0f, 127.0f) * d;
  }
}

// As above with d = x / -8 for the x of largest magnitude (of two, the negative), so that x itself is exact; q in [-8,
// 7].
void round_q4_0(const float* source, float* target, int64_t count) {
  float high = 0, low = 0;
  for (int64_t i = 0; i < count; ++i) {
    high = std::max(high, source[i]);
    low = std::min(low, source[i]);
  }
  const float d = round_f16((high > -low ? high : low) / -8.0f);
  const float inverse = d != 0 ? 1.0f / d : 0.0f;
  for (int64_t i = 0; i < count; ++i) {
    target[i] = std::clamp(std::nearbyint(source[i] * inverse), -8.0f, 7.0f) * d;
  }
}

float round_bf16(float value) {
  return bf16_to_f32(f32_to_bf16(value));
}

// Codes of at most `limit`, the vector's largest magnitude. NaN and infinity make NaN of all elements.
void round_i16(const float* source, float* target, int64_t count, int32_t limit) {
  float max = 0;
  for (int64_t i = 0; i < count; ++i) max = std::fabs(source[i]) <= max ? max : std::fabs(source[i]);
  const auto top = static_cast<float>(limit);
  const bool is_zero = max < top * 0x1p-126f;
  for (int64_t i = 0; i < count; ++i) {
    target[i] = is_zero ? 0.0f : std::isfinite(max) ? std::nearbyint(source[i] * (top / max)) * (max / top) : NAN;
  }
}

// terms: of the sums that the vector's codes take part in (kI16).
void store(const float* source, float* target, int64_t dim, KvDType dtype, int64_t terms) {
  switch (dtype) {
    case KvDType::kF32: std::copy_n(source, dim, target); return;
    case KvDType::kF16: std::transform(source, source + dim, target, round_f16); return;
    case KvDType::kBF16: std::transform(source, source + dim, target, round_bf16); return;
    case KvDType::kQ8_0:
      for (int64_t i = 0; i < dim; i += 32) round_q8_0(source + i, target + i, std::min<int64_t>(32, dim - i));
      return;
    case KvDType::kQ4_0:
      for (int64_t i = 0; i < dim; i += 32) round_q4_0(source + i, target + i, std::min<int64_t>(32, dim - i));
      return;
    case KvDType::kI16: round_i16(source, target, dim, kv_code_max(terms)); return;
  }
}

// One query head over the keys [begin, end): key_at and value_at give the vector of a position.
void attend(const float* query, int64_t key_dim, int64_t value_dim, int64_t begin, int64_t end,
            const AttentionSpec& spec, int64_t head, auto key_at, auto value_at, float* out) {
  std::vector<double> weights;
  double max = spec.sinks != nullptr ? double{spec.sinks[head]} : -HUGE_VAL;
  for (int64_t p = begin; p < end; ++p) {
    const float* key = key_at(p);
    double s = 0;
    for (int64_t i = 0; i < key_dim; ++i) s += double{query[i]} * key[i];
    if (spec.alibi != nullptr) s += round_bf16(spec.alibi[head] * round_bf16(static_cast<float>(p)));
    s *= spec.scale;
    if (spec.softcap > 0) s = spec.softcap * std::tanh(s / spec.softcap);
    weights.push_back(s);
    max = std::max(max, s);
  }
  double sum = spec.sinks != nullptr ? std::exp(spec.sinks[head] - max) : 0.0;
  for (double& w : weights) sum += w = std::exp(w - max);
  for (int64_t i = 0; i < value_dim; ++i) {
    double value = 0;
    for (int64_t p = begin; p < end; ++p) value += weights[static_cast<size_t>(p - begin)] * value_at(p)[i];
    out[i] = static_cast<float>(value / sum);
  }
}

}  // namespace

Result<std::unique_ptr<KvStorage>> ReferenceDevice::allocate_kv(std::span<const KvLayerSpec> layers,
                                                                int32_t num_blocks) {
  QUERN_TRY(check_kv_request(layers, num_blocks));
  auto storage = std::make_unique<ReferenceKv>();
  storage->layers.assign(layers.begin(), layers.end());
  storage->num_blocks = num_blocks;
  const int64_t slots = int64_t{num_blocks} * kKvBlockSize;
  try {
    for (const KvLayerSpec& layer : layers) {
      ReferenceKv::Layer data;
      data.keys.resize(static_cast<size_t>(slots * layer.num_kv_heads * layer.key_dim));
      if (!layer.value_in_key) data.values.resize(static_cast<size_t>(slots * layer.num_kv_heads * layer.value_dim));
      storage->data.push_back(std::move(data));
    }
  } catch (const std::bad_alloc&) {
    return make_error(ErrorCode::kResourceExhausted, fmt::format("no memory for {} KV blocks", num_blocks));
  }
  return storage;
}

void ReferenceDevice::write_kv(Mat key, Mat value, std::span<const int32_t> slots, KvStorage& storage, int32_t layer) {
  checks::write_kv(key, value, slots, storage, layer);
  const KvLayerSpec& spec = storage.layers[static_cast<size_t>(layer)];
  ReferenceKv::Layer& data = static_cast<ReferenceKv&>(storage).data[static_cast<size_t>(layer)];
  auto write = [&](Mat source, std::vector<float>& target, int32_t dim, KvDType dtype, int64_t terms) {
    for (size_t t = 0; t < slots.size(); ++t) {
      for (int64_t h = 0; h < spec.num_kv_heads; ++h) {
        store(source.row(static_cast<int64_t>(t)) + h * dim,
              target.data() + (int64_t{slots[t]} * spec.num_kv_heads + h) * dim, dim, dtype, terms);
      }
    }
  };
  write(key, data.keys, spec.key_dim, spec.key_dtype, spec.key_dim);
  if (!spec.value_in_key) write(value, data.values, spec.value_dim, spec.value_dtype, kKvValueTerms);
}

void ReferenceDevice::copy_kv_block(KvStorage& storage, int32_t source, int32_t target) {
  checks::copy_kv_block(storage, source, target);
  if (source == target) return;
  for (size_t l = 0; l < storage.layers.size(); ++l) {
    ReferenceKv::Layer& data = static_cast<ReferenceKv&>(storage).data[l];
    for (std::vector<float>* v : {&data.keys, &data.values}) {
      const int64_t size = static_cast<int64_t>(v->size()) / storage.num_blocks;
      std::copy_n(v->data() + source * size, size, v->data() + target * size);
    }
  }
}

void ReferenceDevice::attention(Mat query, const KvStorage& storage, int32_t layer,
                                std::span<const SequenceSpan> sequences, const AttentionSpec& spec, Mat out) {
  checks::attention(query, storage, layer, sequences, spec, out);
  const KvLayerSpec& kv = storage.layers[static_cast<size_t>(layer)];
  const ReferenceKv::Layer& data = static_cast<const ReferenceKv&>(storage).data[static_cast<size_t>(layer)];
  const int64_t group = spec.num_heads / kv.num_kv_heads;
  for (const SequenceSpan& s : sequences) {
    for (int64_t i = 0; i < s.query_count; ++i) {
      const int64_t row = s.query_begin + i;
      const int64_t end = s.context_begin + i + 1;
      const int64_t begin = spec.window > 0 ? std::max<int64_t>(0, end - spec.window) : 0;
      for (int64_t h = 0; h < spec.num_heads; ++h) {
        auto vector_of = [&](int64_t p) {
          const int64_t slot =
              int64_t{s.blocks[static_cast<size_t>(p / kKvBlockSize)]} * kKvBlockSize + p % kKvBlockSize;
          return slot * kv.num_kv_heads + h / group;
        };
        auto key_at = [&](int64_t p) { return data.keys.data() + vector_of(p) * kv.key_dim; };
        auto value_at = [&](int64_t p) {
          return kv.value_in_key ? key_at(p) : data.values.data() + vector_of(p) * kv.value_dim;
        };
        attend(query.row(row) + h * kv.key_dim, kv.key_dim, kv.value_dim, begin, end, spec, h, key_at, value_at,
               out.row(row) + h * kv.value_dim);
      }
    }
  }
}

void ReferenceDevice::attention_full(Mat query, Mat key, Mat value, int32_t num_kv_heads,
                                     std::span<const SequenceSpan> sequences, const AttentionSpec& spec, Mat out) {
  checks::attention_full(query, key, value, num_kv_heads, sequences, spec, out);
  const int64_t group = spec.num_heads / num_kv_heads;
  const int64_t key_dim = key.cols / num_kv_heads, value_dim = value.cols / num_kv_heads;
  for (const SequenceSpan& s : sequences) {
    const int64_t first = s.query_begin, last = first + s.query_count;
    for (int64_t row = first; row < last; ++row) {
      const int64_t begin = spec.window > 0 ? std::max(first, row - spec.window + 1) : first;
      const int64_t end = spec.window > 0 ? std::min(last, row + spec.window) : last;
      for (int64_t h = 0; h < spec.num_heads; ++h) {
        auto key_at = [&](int64_t p) { return key.row(first + p) + h / group * key_dim; };
        auto value_at = [&](int64_t p) { return value.row(first + p) + h / group * value_dim; };
        attend(query.row(row) + h * key_dim, key_dim, value_dim, begin - first, end - first, spec, h, key_at, value_at,
               out.row(row) + h * value_dim);
      }
    }
  }
}

}  // namespace quern
