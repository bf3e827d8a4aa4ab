#include "kernels/cpu/cpu_device.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/status.h"
#include "hardware/cpu_topology.h"
#include "kernels/checks.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/kv_storage.h"
#include "kernels/cpu/row_ops.h"
#include "kernels/host_memory.h"

namespace quern {

Result<std::unique_ptr<Device>> make_cpu_device(const CpuDeviceOptions& options) {
  constexpr int32_t kThreadsMax = 1024;
  if (options.num_threads < 0 || options.num_threads > kThreadsMax) {
    return invalid_argument(fmt::format("threads: {} is not in 0 … {}", options.num_threads, kThreadsMax));
  }
  QUERN_ASSIGN(const std::string isa, cpu::select_isa(options.isa));
  return std::make_unique<CpuDevice>(options.num_threads > 0 ? options.num_threads : usable_cores(), isa);
}

CpuDevice::CpuDevice(int32_t num_threads, std::string_view isa)
    : pool_(num_threads),
      matmul_(num_threads),
      name_(fmt::format("cpu ({}, {} thread{})", isa, pool_.num_threads(), pool_.num_threads() == 1 ? "" : "s")) {}

Result<std::unique_ptr<Buffer>> CpuDevice::allocate(int64_t elements) {
  return allocate_host_buffer(elements);
}

Result<std::unique_ptr<KvStorage>> CpuDevice::allocate_kv(std::span<const KvLayerSpec> layers, int32_t num_blocks) {
  return cpu::CpuKvStorage::create(layers, num_blocks);
}

void CpuDevice::upload(std::span<const float> host, float* device) {
  std::ranges::copy(host, device);
}

void CpuDevice::download(const float* device, std::span<float> host) {
  std::copy_n(device, host.size(), host.begin());
}

Result<std::unique_ptr<Weight>> CpuDevice::pack(std::span<const WeightRows> parts, int64_t planes,
                                                const WeightForm& form) {
  return matmul_.pack_weight(parts, planes, form, &pool_);
}

void CpuDevice::embed(const Weight& table, std::span<const int32_t> ids, Mat out) {
  checks::embed(table, ids, out);
  matmul_.embed(table, ids, out);
}

void CpuDevice::matmul(Mat x, std::span<const MatmulTarget> targets) {
  checks::matmul(x, targets);
  matmul_.matmul(pool_, x, targets);
}

void CpuDevice::matmul_experts(Mat x, const Weight& weight, const float* bias, std::span<const ExpertRows> groups,
                               Mat out) {
  checks::matmul_experts(x, weight, groups, out);
  matmul_.matmul_experts(pool_, x, weight, bias, groups, out);
}

void CpuDevice::rms_norm(Mat x, const NormSpec& spec, Mat out) {
  checks::norm(x, spec, out);
  cpu::rms_norm(pool_, x, spec, out);
}

void CpuDevice::layer_norm(Mat x, const NormSpec& spec, Mat out) {
  checks::norm(x, spec, out);
  cpu::layer_norm(pool_, x, spec, out);
}

void CpuDevice::rope(Mat x, const RopeSpec& spec, Mat cosine, Mat sine) {
  checks::rope(x, spec, cosine, sine);
  cpu::rope(pool_, x, spec, cosine, sine);
}

void CpuDevice::write_kv(Mat key, Mat value, std::span<const int32_t> slots, KvStorage& storage, int32_t layer) {
  checks::write_kv(key, value, slots, storage, layer);
  cpu::write_kv(pool_, key, value, slots, static_cast<cpu::CpuKvStorage&>(storage).data[static_cast<size_t>(layer)]);
}

void CpuDevice::copy_kv_block(KvStorage& storage, int32_t source, int32_t target) {
  checks::copy_kv_block(storage, source, target);
  cpu::copy_kv_block(static_cast<cpu::CpuKvStorage&>(storage), source, target);
}

void CpuDevice::attention(Mat query, const KvStorage& storage, int32_t layer, std::span<const SequenceSpan> sequences,
                          const AttentionSpec& spec, Mat out) {
  checks::attention(query, storage, layer, sequences, spec, out);
  attention_.attention(pool_, query, static_cast<const cpu::CpuKvStorage&>(storage).data[static_cast<size_t>(layer)],
                       sequences, spec, out);
}

KvDType CpuDevice::fastest_kv_dtype() {
  return cpu::attention::has_integers() ? KvDType::kI16 : KvDType::kF16;
}

void CpuDevice::attention_full(Mat query, Mat key, Mat value, int32_t num_kv_heads,
                               std::span<const SequenceSpan> sequences, const AttentionSpec& spec, Mat out) {
  checks::attention_full(query, key, value, num_kv_heads, sequences, spec, out);
  attention_.attention_full(pool_, query, key, value, num_kv_heads, sequences, spec, out);
}

void CpuDevice::activate(Mat x, Activation kind, Mat out) {
  checks::same_shape(x, out);
  cpu::activate(pool_, x, kind, out);
}

void CpuDevice::activate_multiply(Mat gate, Mat up, Activation kind, Mat out) {
  checks::same_shape(gate, out);
  checks::same_shape(up, out);
  cpu::activate_multiply(pool_, gate, up, kind, out);
}

void CpuDevice::swiglu_clamped(Mat gate, Mat up, float limit, Mat out) {
  checks::same_shape(gate, out);
  checks::same_shape(up, out);
  cpu::swiglu_clamped(pool_, gate, up, limit, out);
}

void CpuDevice::add(Mat x, Mat y, float y_scale, Mat out) {
  checks::same_shape(x, out);
  checks::same_shape(y, out);
  cpu::add(pool_, x, y, y_scale, out);
}

void CpuDevice::add_row(Mat x, const float* row, Mat out) {
  checks::same_shape(x, out);
  cpu::add_row(pool_, x, row, out);
}

void CpuDevice::scale(Mat x, float factor, Mat out) {
  checks::same_shape(x, out);
  cpu::scale(pool_, x, factor, out);
}

void CpuDevice::scale_rows(Mat x, std::span<const float> factors, Mat out) {
  checks::scale_rows(x, factors, out);
  cpu::scale_rows(pool_, x, factors, out);
}

void CpuDevice::softcap(Mat x, float cap, Mat out) {
  checks::same_shape(x, out);
  cpu::softcap(pool_, x, cap, out);
}

void CpuDevice::gather_rows(Mat x, std::span<const int32_t> rows, Mat out) {
  checks::gather_rows(x, rows, out);
  cpu::gather_rows(pool_, x, rows, out);
}

void CpuDevice::copy(Mat x, Mat out) {
  checks::same_shape(x, out);
  cpu::copy(pool_, x, out);
}

void CpuDevice::route(Mat logits, const RouterSpec& spec, std::span<int32_t> ids, std::span<float> weights) {
  checks::route(logits, spec, ids, weights);
  cpu::route(pool_, logits, spec, ids, weights, router_scratch_);
}

void CpuDevice::combine_experts(Mat x, std::span<const float> weights, int32_t top_k, Mat out) {
  checks::combine_experts(x, weights, top_k, out);
  cpu::combine_experts(pool_, x, weights, top_k, out);
}

}  // namespace quern
