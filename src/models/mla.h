// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1), in its absorbed form: the cache holds one
// latent vector and one rotated key per token, shared by all heads; queries are brought into the latent space, and
// results out of it, by the two halves of kv_b.
//
//   x ─ kv_a ─▶ [latent | rotated key]                    cached, [rank + rope]
//   x ─ q ────▶ per head [nope | rope] ─ key_b ─▶ [rank | rope] · cache ─▶ weights
//                                     weights · latent ─▶ [rank] ─ value_b ─▶ [value_dim] per head
#pragma once

#include <memory>
#include <vector>

#include "models/model_config.h"
#include "models/weights.h"

namespace quern {

struct MlaScratch {
  std::unique_ptr<Buffer> query_low;  // [T, q_lora_rank]
  std::unique_ptr<Buffer> query;      // [T, heads * (nope + rope)]
  std::unique_ptr<Buffer> absorbed;   // [T, heads * (rank + rope)]
  std::unique_ptr<Buffer> latent;     // [T, rank + rope]
  std::unique_ptr<Buffer> attended;   // [T, heads * rank]
  std::vector<int32_t> head_rows;     // [heads * T] rows of one head, heads one after the other
  std::vector<ExpertRows> groups;     // [heads] the same rows in and out: heads take the place of experts
};

Status reserve_mla(Device& device, const ModelConfig& config, int64_t tokens_max, MlaScratch& scratch);

// x [T, hidden] → scratch.query [T, heads * (nope + rope)], not rotated yet, and scratch.latent, normalised, not
// rotated.
void project_latent(Device& device, const ModelConfig& config, const LayerWeights& weights, MlaScratch& scratch, Mat x);
// scratch.query, rotated → scratch.absorbed.
void absorb_query(Device& device, const ModelConfig& config, const LayerWeights& weights, MlaScratch& scratch,
                  int64_t tokens);
// scratch.attended → out [T, heads * value_dim].
void expand_values(Device& device, const ModelConfig& config, const LayerWeights& weights, MlaScratch& scratch,
                   int64_t tokens, Mat out);

}  // namespace quern
