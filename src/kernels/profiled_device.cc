#include "kernels/profiled_device.h"

#include <algorithm>
#include <cmath>

namespace quern {
namespace {

double weight_bytes(const Weight& weight, double planes) {
  const DTypeInfo& info = dtype_info(weight.dtype);
  const double elements = planes * static_cast<double>(weight.rows) * static_cast<double>(weight.cols);
  if (weight.device_bytes == 0) return elements / info.block_elements * info.block_bytes;
  return static_cast<double>(weight.device_bytes) * planes / static_cast<double>(weight.planes);
}

double macs_of(const Weight& weight, double tokens) {
  return tokens * static_cast<double>(weight.rows) * static_cast<double>(weight.cols);
}

struct AttentionCost {
  double macs = 0;
  double bytes = 0;
};

// Keys and values are read once per sequence; a query meets what it sees of them.
AttentionCost attention_cost(const KvLayerSpec& layer, std::span<const SequenceSpan> sequences,
                             const AttentionSpec& spec) {
  AttentionCost cost;
  const double window = spec.window > 0 ? spec.window : HUGE_VAL;
  const double macs_per_key = static_cast<double>(spec.num_heads) * (layer.key_dim + layer.value_dim);
  for (const SequenceSpan& s : sequences) {
    double seen = 0;
    for (int32_t i = 0; i < s.query_count; ++i) seen += std::min<double>(s.context_begin + i + 1, window);
    cost.macs += seen * macs_per_key;
    const double keys = std::min<double>(s.context_begin + s.query_count, window + s.query_count - 1);
    cost.bytes += keys * static_cast<double>(kv_bytes_per_token(layer));
  }
  return cost;
}

class ProfiledDevice final : public Device {
 public:
  ProfiledDevice(std::unique_ptr<Device> device, OpProfile& profile) : device_(std::move(device)), profile_(profile) {}

  std::string_view name() const override { return device_->name(); }
  Result<std::unique_ptr<Buffer>> allocate(int64_t elements) override { return device_->allocate(elements); }
  Result<std::unique_ptr<KvStorage>> allocate_kv(std::span<const KvLayerSpec> layers, int32_t num_blocks) override {
    return device_->allocate_kv(layers, num_blocks);
  }
  Result<std::unique_ptr<Weight>> pack(std::span<const WeightRows> parts, int64_t planes,
                                       const WeightForm& form) override {
    return device_->pack(parts, planes, form);
  }
  bool works_in_host_memory() const override { return device_->works_in_host_memory(); }
  KvDType fast_kv_dtype() const override { return device_->fast_kv_dtype(); }
  void upload(std::span<const float> host, float* device) override {
    const OpTimer timer(profile_, {"upload"});
    device_->upload(host, device);
  }
  void download(const float* device, std::span<float> host) override {
    const OpTimer timer(profile_, {"download"});
    device_->download(device, host);
  }

  void embed(const Weight& table, std::span<const int32_t> ids, Mat out) override {
    const OpTimer timer(profile_, {"embed"});
    device_->embed(table, ids, out);
  }
  void matmul(Mat x, std::span<const MatmulTarget> targets) override {
    OpKey key{.name = "matmul", .in = x.cols};
    double macs = 0, bytes = 0;
    for (const MatmulTarget& target : targets) {
      key.out += target.weight->rows;
      key.dtype = target.weight->dtype;
      macs += macs_of(*target.weight, static_cast<double>(x.rows));
      bytes += weight_bytes(*target.weight, 1);
    }
    const OpTimer timer(profile_, key, macs, bytes);
    device_->matmul(x, targets);
  }
  void matmul_experts(Mat x, const Weight& weight, const float* bias, std::span<const ExpertRows> groups,
                      Mat out) override {
    double rows = 0, planes = 0;
    for (const ExpertRows& group : groups) {
      rows += static_cast<double>(group.source_rows.size());
      planes += group.source_rows.empty() ? 0 : 1;
    }
    const OpTimer timer(profile_, {"matmul_experts", weight.cols, weight.rows, weight.dtype}, macs_of(weight, rows),
                        weight_bytes(weight, planes));
    device_->matmul_experts(x, weight, bias, groups, out);
  }

  void rms_norm(Mat x, const NormSpec& spec, Mat out) override {
    const OpTimer timer(profile_, {"rms_norm"});
    device_->rms_norm(x, spec, out);
  }
  void layer_norm(Mat x, const NormSpec& spec, Mat out) override {
    const OpTimer timer(profile_, {"layer_norm"});
    device_->layer_norm(x, spec, out);
  }
  void rope(Mat x, const RopeSpec& spec, Mat cosine, Mat sine) override {
    const OpTimer timer(profile_, {"rope"});
    device_->rope(x, spec, cosine, sine);
  }

  void write_kv(Mat key, Mat value, std::span<const int32_t> slots, KvStorage& storage, int32_t layer) override {
    const OpTimer timer(profile_, {"write_kv"});
    device_->write_kv(key, value, slots, storage, layer);
  }
  void copy_kv_block(KvStorage& storage, int32_t source, int32_t target) override {
    const OpTimer timer(profile_, {"copy_kv_block"});
    device_->copy_kv_block(storage, source, target);
  }
  void attention(Mat query, const KvStorage& storage, int32_t layer, std::span<const SequenceSpan> sequences,
                 const AttentionSpec& spec, Mat out) override {
    const AttentionCost cost = attention_cost(storage.layers[static_cast<size_t>(layer)], sequences, spec);
    const OpTimer timer(profile_, {"attention"}, cost.macs, cost.bytes);
    device_->attention(query, storage, layer, sequences, spec, out);
  }
  void attention_full(Mat query, Mat key, Mat value, int32_t num_kv_heads, std::span<const SequenceSpan> sequences,
                      const AttentionSpec& spec, Mat out) override {
    const OpTimer timer(profile_, {"attention_full"});
    device_->attention_full(query, key, value, num_kv_heads, sequences, spec, out);
  }

  void activate(Mat x, Activation kind, Mat out) override {
    const OpTimer timer(profile_, {"activate"});
    device_->activate(x, kind, out);
  }
  void activate_multiply(Mat gate, Mat up, Activation kind, Mat out) override {
    const OpTimer timer(profile_, {"activate_multiply"});
    device_->activate_multiply(gate, up, kind, out);
  }
  void swiglu_clamped(Mat gate, Mat up, float limit, Mat out) override {
    const OpTimer timer(profile_, {"swiglu_clamped"});
    device_->swiglu_clamped(gate, up, limit, out);
  }
  void add(Mat x, Mat y, float y_scale, Mat out) override {
    const OpTimer timer(profile_, {"add"});
    device_->add(x, y, y_scale, out);
  }
  void add_row(Mat x, const float* row, Mat out) override {
    const OpTimer timer(profile_, {"add_row"});
    device_->add_row(x, row, out);
  }
  void scale(Mat x, float factor, Mat out) override {
    const OpTimer timer(profile_, {"scale"});
    device_->scale(x, factor, out);
  }
  void scale_rows(Mat x, std::span<const float> factors, Mat out) override {
    const OpTimer timer(profile_, {"scale_rows"});
    device_->scale_rows(x, factors, out);
  }
  void softcap(Mat x, float cap, Mat out) override {
    const OpTimer timer(profile_, {"softcap"});
    device_->softcap(x, cap, out);
  }
  void gather_rows(Mat x, std::span<const int32_t> rows, Mat out) override {
    const OpTimer timer(profile_, {"gather_rows"});
    device_->gather_rows(x, rows, out);
  }
  void copy(Mat x, Mat out) override {
    const OpTimer timer(profile_, {"copy"});
    device_->copy(x, out);
  }

  void route(Mat logits, const RouterSpec& spec, std::span<int32_t> ids, std::span<float> weights) override {
    const OpTimer timer(profile_, {"route"});
    device_->route(logits, spec, ids, weights);
  }
  void combine_experts(Mat x, std::span<const float> weights, int32_t top_k, Mat out) override {
    const OpTimer timer(profile_, {"combine_experts"});
    device_->combine_experts(x, weights, top_k, out);
  }

 private:
  std::unique_ptr<Device> device_;
  OpProfile& profile_;
};

}  // namespace

std::unique_ptr<Device> make_profiled_device(std::unique_ptr<Device> device, OpProfile& profile) {
  return std::make_unique<ProfiledDevice>(std::move(device), profile);
}

}  // namespace quern
