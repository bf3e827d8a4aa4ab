#include "models/moe.h"

#include <cmath>

#include "base/status.h"

namespace quern {
namespace {

// Groups choices t * top_k + k by expert, in token order inside a group.
void group_by_expert(const MoeConfig& moe, int64_t tokens, MoeScratch& scratch) {
  const int64_t choices = tokens * moe.router.top_k;
  std::vector<int32_t>& ends = scratch.group_ends;
  std::fill(ends.begin(), ends.end(), 0);
  for (int64_t i = 0; i < choices; ++i) ++ends[static_cast<size_t>(scratch.expert_ids[static_cast<size_t>(i)])];
  int32_t begin = 0;
  for (int32_t& end : ends) {  // counts become begins
    const int32_t count = end;
    end = begin;
    begin += count;
  }
  for (int64_t i = 0; i < choices; ++i) {  // begins become ends
    const auto slot = static_cast<size_t>(ends[static_cast<size_t>(scratch.expert_ids[static_cast<size_t>(i)])]++);
    scratch.source_rows[slot] = static_cast<int32_t>(i / moe.router.top_k);
    scratch.target_rows[slot] = static_cast<int32_t>(i);
  }
  scratch.inward.clear();
  scratch.inner.clear();
  begin = 0;
  for (int32_t expert = 0; expert < moe.num_experts; ++expert) {
    const int32_t end = ends[static_cast<size_t>(expert)];
    if (end > begin) {
      const auto part = [&](const std::vector<int32_t>& rows) {
        return std::span<const int32_t>(rows).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
      };
      scratch.inward.push_back({expert, part(scratch.source_rows), part(scratch.target_rows)});
      scratch.inner.push_back({expert, part(scratch.target_rows), part(scratch.target_rows)});
    }
    begin = end;
  }
}

void add_shared_expert(Device& device, const ModelConfig& config, const MoeWeights& weights, MoeScratch& scratch, Mat x,
                       Mat out) {
  const Mat shared = scratch.shared_out->mat(x.rows, config.hidden_size);
  run_mlp(device, config.mlp, config.moe.shared_intermediate_size, weights.shared, scratch.shared, x, shared);
  if (config.moe.shared_gate) {
    const Mat logit = scratch.shared_logit->mat(x.rows, 1);
    const Device::MatmulTarget target{weights.shared_router.weight, nullptr, logit};
    device.matmul(x, {&target, 1});
    device.activate(logit, Activation::kSigmoid, logit);
    const std::span<float> factors(scratch.shared_factors.data(), static_cast<size_t>(x.rows));
    device.download(logit.data, factors);
    device.scale_rows(shared, factors, shared);
  }
  device.add(out, shared, 1.0f, out);
}

}  // namespace

Status reserve_moe(Device& device, const ModelConfig& config, int64_t tokens_max, MoeScratch& scratch) {
  const MoeConfig& moe = config.moe;
  const int64_t choices = tokens_max * moe.router.top_k;
  QUERN_ASSIGN(scratch.router_logits, device.allocate(tokens_max * moe.num_experts));
  QUERN_ASSIGN(scratch.gate, device.allocate(choices * moe.intermediate_size));
  QUERN_ASSIGN(scratch.up, device.allocate(choices * moe.intermediate_size));
  QUERN_ASSIGN(scratch.expert_out, device.allocate(choices * config.hidden_size));
  if (moe.shared_intermediate_size > 0) {
    QUERN_ASSIGN(scratch.shared_out, device.allocate(tokens_max * config.hidden_size));
    QUERN_ASSIGN(scratch.shared_logit, device.allocate(tokens_max));
    QUERN_TRY(reserve_mlp(device, tokens_max, moe.shared_intermediate_size, scratch.shared));
  }
  scratch.expert_ids.resize(static_cast<size_t>(choices));
  scratch.expert_weights.resize(static_cast<size_t>(choices));
  scratch.source_rows.resize(static_cast<size_t>(choices));
  scratch.target_rows.resize(static_cast<size_t>(choices));
  scratch.group_ends.resize(static_cast<size_t>(moe.num_experts));
  scratch.inward.reserve(static_cast<size_t>(moe.num_experts));
  scratch.inner.reserve(static_cast<size_t>(moe.num_experts));
  scratch.shared_factors.resize(static_cast<size_t>(tokens_max));
  return {};
}

void run_moe(Device& device, const ModelConfig& config, const MoeWeights& weights, MoeScratch& scratch, Mat x,
             Mat out) {
  const MoeConfig& moe = config.moe;
  const int64_t choices = x.rows * moe.router.top_k;
  const Mat router_logits = scratch.router_logits->mat(x.rows, moe.num_experts);
  const Device::MatmulTarget router{weights.router.weight, weights.router.bias, router_logits};
  device.matmul(x, {&router, 1});

  const std::span<int32_t> ids(scratch.expert_ids.data(), static_cast<size_t>(choices));
  const std::span<float> factors(scratch.expert_weights.data(), static_cast<size_t>(choices));
  RouterSpec spec = moe.router;
  spec.bias = weights.selection_bias;
  device.route(router_logits, spec, ids, factors);
  group_by_expert(moe, x.rows, scratch);

  const Mat gate = scratch.gate->mat(choices, moe.intermediate_size);
  const Mat up = scratch.up->mat(choices, moe.intermediate_size);
  device.matmul_experts(x, *weights.gate.weight, weights.gate.bias, scratch.inward, gate);
  device.matmul_experts(x, *weights.up.weight, weights.up.bias, scratch.inward, up);
  if (moe.clamp_limit > 0.0f) {
    device.swiglu_clamped(gate, up, moe.clamp_limit, gate);
  } else {
    device.activate_multiply(gate, up, config.mlp.activation, gate);
  }
  const Mat expert_out = scratch.expert_out->mat(choices, config.hidden_size);
  device.matmul_experts(gate, *weights.down.weight, weights.down.bias, scratch.inner, expert_out);
  device.combine_experts(expert_out, factors, moe.router.top_k, out);
  if (moe.shared_intermediate_size > 0) add_shared_expert(device, config, weights, scratch, x, out);
}

}  // namespace quern
