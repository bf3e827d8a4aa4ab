#include "engine/yes_no_reranker.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/status.h"
#include "engine/sequence_runner.h"

namespace quern {
namespace {

// The words the model was trained with, from its model card; others change the scores.
constexpr std::string_view kBefore =
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    "provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n";
constexpr std::string_view kAfter = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";
constexpr std::string_view kTask = "Given a web search query, retrieve relevant passages that answer the query";

// Whether a token's keys depend on its predecessors alone, not on the prompt's length.
bool prefix_is_shareable(const ModelConfig& config) {
  return std::ranges::none_of(config.ropes, [](const RopeConfig& rope) {
    return rope.scaling == RopeScaling::kDynamic || rope.scaling == RopeScaling::kLongRope;
  });
}

size_t common_prefix(std::span<const int32_t> a, std::span<const int32_t> b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

}  // namespace

Result<std::unique_ptr<YesNoReranker>> YesNoReranker::create(std::unique_ptr<ModelSource> source,
                                                             const EncoderOptions& options) {
  std::unique_ptr<YesNoReranker> reranker(new YesNoReranker());
  QUERN_ASSIGN(reranker->tokenizer_, open_tokenizer(*source));
  const Tokenizer& tokenizer = *reranker->tokenizer_;
  const auto yes = tokenizer.token_id("yes"), no = tokenizer.token_id("no");
  if (!yes || !no || !tokenizer.token_id("<|im_start|>") || !tokenizer.token_id("<|im_end|>")) {
    return unsupported(fmt::format("{}: has neither a classification head nor the tokens of a yes/no reranker",
                                   source->path.string()));
  }
  reranker->yes_ = *yes;
  reranker->no_ = *no;
  constexpr EncodeOptions kFrame = {.add_special = false, .parse_special = true};
  QUERN_ASSIGN(Encoding before, tokenizer.encode(kBefore, kFrame));
  QUERN_ASSIGN(Encoding after, tokenizer.encode(kAfter, kFrame));
  reranker->before_ = std::move(before.ids);
  reranker->after_ = std::move(after.ids);
  const RunnerOptions runner = {.device = options.device,
                                .precision = options.precision,
                                .num_threads = options.num_threads,
                                .max_logits_rows = 1};
  QUERN_ASSIGN(reranker->runner_, Runner::create(std::move(source), runner));
  const int32_t tokens_max = reranker->runner_->config().context_length;
  QUERN_ASSIGN(reranker->truncation_, truncation_length(options.truncate_prompt_tokens, tokens_max));
  return reranker;
}

Result<std::vector<int32_t>> YesNoReranker::prompt(const std::string& query, const std::string& document) const {
  const std::string request = fmt::format("<Instruct>: {}\n<Query>: {}\n<Document>: {}", kTask, query, document);
  QUERN_ASSIGN(const Encoding encoding, tokenizer_->encode(request, {.add_special = false, .parse_special = false}));
  std::vector<int32_t> ids = before_;
  // The frame stays whole, or there would be no question.
  const size_t frame = before_.size() + after_.size();
  std::span<const int32_t> words = encoding.ids;
  if (truncation_) {
    const size_t room = std::max(static_cast<size_t>(*truncation_), frame) - frame;
    words = words.first(std::min(room, words.size()));
  }
  ids.insert(ids.end(), words.begin(), words.end());
  ids.insert(ids.end(), after_.begin(), after_.end());
  return ids;
}

Result<RelevanceScores> YesNoReranker::rerank(const std::string& query, std::span<const std::string> documents) {
  RelevanceScores result;
  std::vector<std::vector<int32_t>> prompts;
  int32_t longest = 1;
  for (size_t i = 0; i < documents.size(); ++i) {
    QUERN_ASSIGN(std::vector<int32_t> ids, prompt(query, documents[i]));
    const auto length = static_cast<int32_t>(ids.size());
    if (length > runner_->config().context_length) {
      return invalid_argument(fmt::format("document {}: {} tokens with the query, the model takes at most {}", i,
                                          length, runner_->config().context_length));
    }
    longest = std::max(longest, length);
    result.prompt_tokens += length;
    prompts.push_back(std::move(ids));
  }
  const std::lock_guard lock(mutex_);
  QUERN_ASSIGN(auto sequences, SequenceRunner::create(*runner_, {.num_sequences = 1, .tokens_max = longest}));
  const bool shareable = prefix_is_shareable(runner_->config());
  std::span<const int32_t> previous;
  for (const std::vector<int32_t>& ids : prompts) {
    // Documents share the prompt up to their own words; at least one token must run to give logits.
    const size_t shared = shareable ? std::min(common_prefix(previous, ids), ids.size() - 1) : 0;
    sequences.truncate(0, static_cast<int32_t>(shared));
    float difference = 0.0f;
    const auto read = [&](int32_t, std::span<float> logits) -> Status {
      if (!logits.empty()) difference = logits[static_cast<size_t>(yes_)] - logits[static_cast<size_t>(no_)];
      return {};
    };
    QUERN_TRY(sequences.append_chunked(0, std::span(ids).subspan(shared), LogitsRows::kLast, read));
    result.scores.push_back(static_cast<float>(1.0 / (1.0 + std::exp(-static_cast<double>(difference)))));
    previous = ids;
  }
  return result;
}

}  // namespace quern
