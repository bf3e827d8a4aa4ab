#include "models/bind_moe.h"

#include "base/status.h"
#include "models/interleaved_experts.h"

namespace quern {
namespace {

// Experts of one projection, [experts, rows, cols]: one stacked tensor where the file has it, else a tensor per expert.
Status bind_experts(TensorBinder& binder, std::string_view stacked, std::string_view single, int32_t layer,
                    const MoeConfig& moe, int64_t rows, int64_t cols, Linear& out) {
  const int64_t experts = moe.num_experts;
  std::vector<WeightRows> parts;
  std::string name;
  if (binder.has(stacked, layer)) {
    name = binder.prefixed(stacked, layer);
    QUERN_ASSIGN(const TensorView view, binder.take(name + ".weight", {experts, rows, cols}));
    parts.push_back(rows_of(view, cols));
  } else {
    for (int32_t expert = 0; expert < experts; ++expert) {
      name = binder.prefixed(single, layer, expert);
      QUERN_ASSIGN(const TensorView view, binder.take_matrix(name + ".weight", rows, cols));
      parts.push_back(rows_of(view, cols));
    }
  }
  QUERN_ASSIGN(out.weight, binder.pack(parts, experts, binder.precision(), name));
  if (moe.expert_bias == Presence::kAbsent) return {};
  return binder.vector(name + ".bias", {experts, rows}, moe.expert_bias, out.bias);
}

Status bind_shared_expert(TensorBinder& binder, const ModelConfig& config, int32_t layer, MoeWeights& out) {
  const TensorNames& names = binder.names();
  MlpConfig shared = config.mlp;
  shared.intermediate_size = config.moe.shared_intermediate_size;
  shared.layout = GateUpLayout::kSeparate;
  QUERN_TRY(bind_mlp(binder, {names.shared_gate, names.shared_up, {}, names.shared_down}, layer, shared,
                     config.hidden_size, out.shared));
  if (!config.moe.shared_gate) return {};
  return binder.exact_linear(names.shared_router, layer, 1, config.hidden_size, Presence::kAbsent, out.shared_router);
}

}  // namespace

Status bind_mlp(TensorBinder& binder, const MlpNames& names, int32_t layer, const MlpConfig& config, int64_t hidden,
                MlpWeights& out) {
  const int64_t inner = config.intermediate_size;
  if (config.gated && config.layout == GateUpLayout::kFused) {
    const TensorBinder::Slice slices[] = {{{{0, inner}}, &out.gate}, {{{inner, inner}}, &out.up}};
    QUERN_TRY(binder.fused_linear(names.gate_up, layer, 2 * inner, hidden, config.bias, slices));
  } else {
    if (config.gated) QUERN_TRY(binder.linear(names.gate, layer, inner, hidden, config.bias, out.gate));
    QUERN_TRY(binder.linear(names.up, layer, inner, hidden, config.bias, out.up));
  }
  return binder.linear(names.down, layer, hidden, inner, config.bias, out.down);
}

Status bind_moe(TensorBinder& binder, const ModelConfig& config, int32_t layer, MoeWeights& out) {
  const MoeConfig& moe = config.moe;
  const TensorNames& names = binder.names();
  const int64_t hidden = config.hidden_size, inner = moe.intermediate_size;
  QUERN_TRY(binder.exact_linear(names.router, layer, moe.num_experts, hidden, moe.router_bias, out.router));
  QUERN_TRY(binder.vector(binder.prefixed(names.selection_bias, layer), {moe.num_experts}, moe.selection_bias,
                          out.selection_bias));
  if (!names.interleaved_gate_up.empty()) {
    QUERN_TRY(bind_interleaved_experts(binder, config, layer, out));
  } else {
    QUERN_TRY(bind_experts(binder, names.experts_gate, names.expert_gate, layer, moe, inner, hidden, out.gate));
    QUERN_TRY(bind_experts(binder, names.experts_up, names.expert_up, layer, moe, inner, hidden, out.up));
    QUERN_TRY(bind_experts(binder, names.experts_down, names.expert_down, layer, moe, hidden, inner, out.down));
  }
  if (moe.shared_intermediate_size == 0) return {};
  return bind_shared_expert(binder, config, layer, out);
}

}  // namespace quern
