// From logits to a token. A pure function of (logits, history, parameters, seed, position): who else is in the batch,
// and which thread runs it, changes nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "quern/status.h"

namespace quern {

// Names, defaults and meaning as vLLM and llama.cpp have them; order of application: logit_bias, penalties,
// temperature, top_k, typical_p, top_p, min_p, draw.
struct SamplingParams {
  float temperature = 1.0f;  // 0: greedy; so is anything below 1e-5, as in vLLM
  int32_t top_k = 0;         // 0 or -1: off
  float top_p = 1.0f;
  float min_p = 0.0f;
  float typical_p = 1.0f;
  float repetition_penalty = 1.0f;  // over prompt and output
  float presence_penalty = 0.0f;    // over output
  float frequency_penalty = 0.0f;   // over output
  std::vector<std::pair<int32_t, float>> logit_bias;
  uint64_t seed = 0;
};

// kInvalidArgument naming the field for a value outside its range (NaN and infinities always are) or an id outside the
// vocabulary.
Status validate(const SamplingParams& params, int32_t vocab_size);

struct SampledToken {
  int32_t id = 0;
  float logprob = 0.0f;  // log-softmax of the raw logits at id
};

class Sampler {
 public:
  virtual ~Sampler() = default;
  // `logits` [vocab] is scratch: it may be changed. `position` is the index of the token being drawn in the whole
  // sequence. Of equal logits the lower id goes first. A NaN counts as -inf, +inf as the largest float; if every logit
  // is NaN or -inf: kInternal.
  virtual Result<SampledToken> sample(std::span<float> logits, std::span<const int32_t> prompt,
                                      std::span<const int32_t> output, int64_t position) = 0;
};
// The parameters must have passed validate(). One thread at a time per sampler.
std::unique_ptr<Sampler> make_sampler(const SamplingParams& params, int32_t vocab_size);

// The random number of (seed, position): uniform in [0, 1). Counter-based (Philox 4x32-10, Salmon et al. 2011).
double uniform_at(uint64_t seed, uint64_t position, uint32_t stream = 0);

}  // namespace quern
