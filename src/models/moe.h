// Mixture of experts: a router chooses top_k experts per token; tokens are grouped per expert, so that each expert's
// matrices are read once per step; the results are summed by weight, in the router's order.
#pragma once

#include <memory>
#include <vector>

#include "models/mlp.h"
#include "models/model_config.h"
#include "models/weights.h"

namespace quern {

struct MoeScratch {
  std::unique_ptr<Buffer> router_logits;  // [T, experts]
  std::unique_ptr<Buffer> gate, up;       // [T * top_k, intermediate]
  std::unique_ptr<Buffer> expert_out;     // [T * top_k, hidden]
  std::unique_ptr<Buffer> shared_out;     // [T, hidden]
  std::unique_ptr<Buffer> shared_logit;   // [T, 1]
  MlpScratch shared;
  // Host side.
  std::vector<int32_t> expert_ids;                // [T * top_k]
  std::vector<float> expert_weights;              // [T * top_k]
  std::vector<int32_t> source_rows, target_rows;  // [T * top_k], grouped by expert
  std::vector<int32_t> group_ends;                // [experts]
  std::vector<ExpertRows> inward, inner;          // token row to choice row; choice row to itself
  std::vector<float> shared_factors;              // [T]
};

Status reserve_moe(Device& device, const ModelConfig& config, int64_t tokens_max, MoeScratch& scratch);

// out [T, hidden] = experts(x [T, hidden]).
void run_moe(Device& device, const ModelConfig& config, const MoeWeights& weights, MoeScratch& scratch, Mat x, Mat out);

}  // namespace quern
