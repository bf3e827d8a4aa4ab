// Relevance by a causal language model that was trained to answer "yes" or "no" (Qwen3-Reranker, arXiv 2506.05176): the
// probability of "yes" among the two at the prompt's end.
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "engine/encoder_service.h"

namespace quern {

class YesNoReranker final : public Reranker {
 public:
  // kUnsupported when the vocabulary lacks the tokens of the prompt.
  static Result<std::unique_ptr<YesNoReranker>> create(std::unique_ptr<ModelSource> source,
                                                       const EncoderOptions& options);

  // kInvalidArgument naming the document that makes the prompt longer than the model's context.
  Result<RelevanceScores> rerank(const std::string& query, std::span<const std::string> documents) override;

 private:
  YesNoReranker() = default;
  Result<std::vector<int32_t>> prompt(const std::string& query, const std::string& document) const;

  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<Runner> runner_;
  std::vector<int32_t> before_, after_;  // tokens around the request
  int32_t yes_ = 0, no_ = 0;
  std::optional<int32_t> truncation_;  // of the whole prompt
  std::mutex mutex_;                   // guards runner_
};

}  // namespace quern
