// The tables of tensors of a decoder, on the device. Pointers lead into the WeightStore that owns everything.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "kernels/device.h"

namespace quern {

// Owns packed weights, vectors and the host copies that some packed weights read in place.
struct WeightStore {
  std::vector<std::unique_ptr<std::vector<std::byte>>> host;  // declared first: destroyed last
  std::vector<std::unique_ptr<Weight>> weights;
  std::vector<std::unique_ptr<Buffer>> vectors;
};

struct Linear {
  const Weight* weight = nullptr;  // null: the model has no such projection
  const float* bias = nullptr;     // device, or null
};
struct NormWeights {
  const float* weight = nullptr;
  const float* bias = nullptr;
};

struct MlpWeights {
  Linear gate;  // absent in models without a gate
  Linear up;
  Linear down;
};

struct MoeWeights {
  Linear router;                          // [experts, hidden]
  const float* selection_bias = nullptr;  // [experts]
  Linear gate, up, down;                  // planes = experts; biases [experts, rows]
  MlpWeights shared;
  Linear shared_router;  // [1, hidden]
};

struct MlaWeights {
  Linear query_a;  // absent: `query` of the layer is the full matrix
  NormWeights query_a_norm;
  Linear query_b;  // [heads * (nope + rope), q_lora_rank]
  Linear kv_a;     // [kv_lora_rank + rope, hidden]
  NormWeights kv_a_norm;
  const Weight* key_b = nullptr;    // planes = heads, [kv_lora_rank, nope]: brings a query into the latent space
  const Weight* value_b = nullptr;  // planes = heads, [value_dim, kv_lora_rank]: brings a latent result out of it
};

struct LayerWeights {
  NormWeights attention_norm;
  NormWeights attention_post_norm;
  NormWeights mlp_norm;
  NormWeights mlp_post_norm;
  Linear query, key, value, output;
  NormWeights query_norm, key_norm;
  const float* sinks = nullptr;  // [heads]
  MlaWeights mla;
  MlpWeights mlp;
  MoeWeights moe;
};

struct DecoderWeights {
  WeightStore store;
  const Weight* embed = nullptr;      // [vocab, hidden]
  const Weight* positions = nullptr;  // [learned_positions, hidden]
  NormWeights final_norm;
  Linear output;  // [vocab, hidden]; the embedding table itself when tied
  std::vector<LayerWeights> layers;
};

}  // namespace quern
