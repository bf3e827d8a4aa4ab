// Embeddings and relevance scores of texts: tokenises, batches, runs. What `quern embed`, `quern rerank` and the server
// share.
//
// Thread-safe: calls from several threads run one after the other.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/runner.h"
#include "models/loader.h"
#include "quern/status.h"
#include "text/tokenizer.h"

namespace quern {

struct EncoderOptions {
  std::string device = "auto";  // auto | cpu | reference
  Precision precision = Precision::kFast;
  std::string quantization = "none";  // as EngineOptions has it
  int32_t num_threads = 0;            // 0: physical cores this process may use
  // Tokens that longer texts are cut to, at most tokens_max(); -1: to that. Absent: longer texts are refused.
  std::optional<int32_t> truncate_prompt_tokens;
  std::function<void(const std::string&)> on_note;  // as EngineOptions has it
};

struct Embeddings {
  std::vector<std::vector<float>> vectors;  // one per text
  int64_t prompt_tokens = 0;
};
struct RelevanceScores {
  std::vector<float> scores;  // one per document, 0 to 1 (cosine of embeddings: -1 to 1)
  int64_t prompt_tokens = 0;
};

class EncoderService {
 public:
  // Any embedding model, classifier or causal language model.
  static Result<std::unique_ptr<EncoderService>> create(std::unique_ptr<ModelSource> source,
                                                        const EncoderOptions& options);
  static Result<std::unique_ptr<EncoderService>> open(const std::filesystem::path& path, const EncoderOptions& options);

  const ModelConfig& config() const { return model_->config(); }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  Device& device() { return *device_; }
  // Tokens of a text, special ones included: the model's positions, or less where the folder's sentence-transformers
  // or tokenizer files say so.
  int32_t tokens_max() const { return tokens_max_; }

  // Errors: kInvalidArgument naming the text by its index ("text 0: …") and the limit, kUnsupported for a classifier.
  Result<Embeddings> embed(std::span<const std::string> texts);
  // A classifier with one label: sigmoid(logit) of the pair. Others: cosine of the two embeddings. Errors name "query"
  // or the document by its index ("document 0: …").
  Result<RelevanceScores> rerank(const std::string& query, std::span<const std::string> documents);
  // Several inputs as they are; checked by the model. Used by EncoderQueue.
  Result<std::vector<EncoderModel::Output>> forward(std::span<const EncoderInput> inputs);
  // One sequence of ids as they are, for `quern logits`.
  Result<EncoderModel::Output> run(const EncoderInput& input, bool keep_hidden, const HiddenTap* tap = nullptr);

 private:
  EncoderService() = default;
  Result<Encoding> encode_text(const std::string& text, std::string_view name) const;
  Result<Embeddings> embed_encodings(std::span<const Encoding> encodings);
  Result<RelevanceScores> classify_pairs(const std::string& query, std::span<const std::string> documents);
  Result<std::vector<EncoderModel::Output>> forward_encodings(std::span<const Encoding> encodings);

  std::unique_ptr<ModelSource> source_;   // first: weights may be read in place, so it goes last
  std::unique_ptr<Tokenizer> tokenizer_;  // null: a folder without one; run() needs none
  std::unique_ptr<Device> device_;
  std::unique_ptr<EncoderModel> model_;
  int32_t tokens_max_ = 0;
  std::optional<int32_t> truncation_;
  std::mutex mutex_;  // guards model_ and device_
};

// Relevance by whatever the model offers: rerank() above, or, for a causal language model without sentence-embedding
// files, the probability of "yes" (yes_no_reranker.h).
class Reranker {
 public:
  static Result<std::unique_ptr<Reranker>> open(const std::filesystem::path& path, const EncoderOptions& options);
  static Result<std::unique_ptr<Reranker>> create(std::unique_ptr<ModelSource> source, const EncoderOptions& options);
  virtual ~Reranker() = default;
  virtual Result<RelevanceScores> rerank(const std::string& query, std::span<const std::string> documents) = 0;
};

// tokenizer.json of the folder or the GGUF's own; kNotFound when there is none.
Result<std::unique_ptr<Tokenizer>> open_tokenizer(const ModelSource& source);

// Cosine of two vectors, 0 when one of them is zero; a logit as a probability.
double cosine_similarity(std::span<const float> a, std::span<const float> b);
float sigmoid(float logit);

// `truncate_prompt_tokens` as a length. kInvalidArgument under its name when it is neither -1 nor in [1, tokens_max].
Result<std::optional<int32_t>> truncation_length(std::optional<int32_t> truncate_prompt_tokens, int32_t tokens_max);

// Indices of the scores, best first; equal ones in order.
std::vector<size_t> ranking(std::span<const float> scores);

}  // namespace quern
