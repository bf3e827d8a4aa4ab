// Perplexity of a text, in windows that do not overlap: the first half of each window is context, the second half is
// scored (as llama.cpp's llama-perplexity does it), and the divergence of one precision from another on the same rows.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "engine/runner.h"

namespace quern {

struct PerplexityOptions {
  int32_t context = 512;          // tokens of a window, >= 4
  int32_t chunks_max = 0;         // windows; 0: as many as the text has
  std::optional<int32_t> bos_id;  // takes the place of each window's first token
};

struct Divergence {
  double mean = 0;  // of KL(reference || model) per token, in nats
  double max = 0;
  double top1_agreement = 0;  // share of rows with the same most probable token
};

struct PerplexityResult {
  double nll = 0;             // mean negative log likelihood per scored token, in nats; perplexity = exp(nll)
  double standard_error = 0;  // of nll
  int64_t tokens = 0;         // scored
  int32_t chunks = 0;
  std::optional<Divergence> divergence;

  double perplexity() const;
};

// Called after each window with the result so far.
using OnPerplexity = std::function<void(const PerplexityResult& so_far, int32_t chunks_total)>;

// `reference`: null, or the same model in another precision; the divergence is then measured too. Both runners get KV
// storage of one window, whatever they had before. Errors: kInvalidArgument when the text is shorter than one window.
Result<PerplexityResult> measure_perplexity(Runner& runner, Runner* reference, std::span<const int32_t> ids,
                                            const PerplexityOptions& options, const OnPerplexity& on_chunk);

}  // namespace quern
