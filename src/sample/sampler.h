// From logits to a token. A function of (logits, history, parameters, seed, position), and for mirostat of the tokens
// drawn before: who else is in the batch, and which thread runs it, changes nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quern/status.h"
#include "sample/dry.h"

namespace quern {

// What may be applied between the logits and the draw, each at most once. Masks (allowed ids, bad words, min_tokens)
// and logit_bias always come first.
enum class SamplerStep : uint8_t {
  kPenalties,
  kDry,
  kTemperature,
  kTopNSigma,
  kTopK,
  kTypicalP,
  kTopP,
  kMinP,
  kXtc,
};
// "penalties", "dry", "temperature", "top_n_sigma", "top_k", "typical_p" (or "typ_p"), "top_p", "min_p", "xtc", as
// llama.cpp's `samplers` has them. kInvalidArgument naming an unknown or repeated one.
Result<std::vector<SamplerStep>> parse_sampler_order(const std::vector<std::string>& names);
const std::vector<SamplerStep>& default_sampler_order();  // the order of the enumeration

// Names, defaults and meaning as vLLM and llama.cpp have them.
struct SamplingParams {
  float temperature = 1.0f;  // 0: greedy; so is anything below 1e-5, as in vLLM
  int32_t top_k = 0;         // 0 or -1: off
  float top_p = 1.0f;
  float min_p = 0.0f;
  float typical_p = 1.0f;
  float top_n_sigma = 0.0f;  // keeps logits within so many standard deviations of the largest; <= 0: off
  float xtc_probability =
      0.0f;  // with this probability all but the least of the tokens above the threshold are dropped
  float xtc_threshold = 0.1f;
  float repetition_penalty = 1.0f;  // over prompt and output
  float presence_penalty = 0.0f;    // over output
  float frequency_penalty = 0.0f;   // over output
  DryParams dry;
  int32_t mirostat = 0;  // 1, 2: instead of the steps that truncate (Basu et al. 2021)
  float mirostat_tau = 5.0f;
  float mirostat_eta = 0.1f;
  std::vector<std::pair<int32_t, float>> logit_bias;
  std::optional<std::vector<int32_t>> allowed_token_ids;  // only these can be drawn
  std::vector<std::vector<int32_t>> bad_words;            // token sequences that the output never contains
  int32_t min_tokens = 0;                                 // of output, before which none of end_ids is drawn
  std::vector<int32_t> end_ids;
  std::vector<SamplerStep> order = default_sampler_order();
  uint64_t seed = 0;
  bool logprob = true;  // whether SampledToken::logprob is wanted: it costs a pass over the vocabulary
};

// kInvalidArgument naming the field for a value outside its range (NaN and infinities always are) or an id outside the
// vocabulary.
Status validate(const SamplingParams& params, int32_t vocab_size);

struct SampledToken {
  int32_t id = 0;
  float logprob = 0.0f;  // log-softmax of the raw logits at id; 0 where it is not wanted
};

// Says which tokens may come next: others get the logit -inf. An error ends the draw.
using LogitsMask = std::function<Status(std::span<float> logits)>;

class Sampler {
 public:
  virtual ~Sampler() = default;
  // `logits` [vocab] is scratch: it may be changed. `position` is the index of the token being drawn in the whole
  // sequence. Of equal logits the lower id goes first. A NaN counts as -inf, +inf as the largest float; if every logit
  // is NaN or -inf, kInternal; or no token is allowed, kInvalidArgument. `mask` (may be empty) comes first; it does not
  // count for logprob.
  virtual Result<SampledToken> sample(std::span<float> logits, std::span<const int32_t> prompt,
                                      std::span<const int32_t> output, int64_t position,
                                      const LogitsMask& mask = {}) = 0;
};
// The parameters must have passed validate(). One thread at a time per sampler.
std::unique_ptr<Sampler> make_sampler(const SamplingParams& params, int32_t vocab_size);

// The random number of (seed, position): uniform in [0, 1). Counter-based (Philox 4x32-10, Salmon et al. 2011).
double uniform_at(uint64_t seed, uint64_t position, uint32_t stream = 0);

}  // namespace quern
