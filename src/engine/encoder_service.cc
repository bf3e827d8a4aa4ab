#include "engine/encoder_service.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/status.h"
#include "engine/device_choice.h"

namespace quern {
namespace {

constexpr EncodeOptions kTextOptions = {.add_special = true, .parse_special = false};

int64_t tokens_of(std::span<const Encoding> encodings) {
  int64_t tokens = 0;
  for (const Encoding& encoding : encodings) tokens += std::ssize(encoding.ids);
  return tokens;
}

// The tokenizer speaks of "text: …" or "pair: …".
Error under_name(Error error, std::string_view name) {
  const size_t end = error.message.find(": ");
  error.message = fmt::format("{}: {}", name, end == std::string::npos ? error.message : error.message.substr(end + 2));
  return error;
}

Status check_length(const Encoding& encoding, std::string_view name, int32_t tokens_max) {
  if (std::ssize(encoding.ids) <= tokens_max) return {};
  return invalid_argument(
      fmt::format("{}: {} tokens, the model takes at most {}", name, encoding.ids.size(), tokens_max));
}

// The least of the model's positions and what the folder's files say.
int32_t tokens_max_of(const ModelSource& source, const ModelConfig& config) {
  int64_t limit = config.context_length;
  if (!source.folder) return static_cast<int32_t>(limit);
  const auto lower = [&limit](const Json& json, const char* key) {
    if (!json.is_object()) return false;
    const auto it = json.find(key);
    // "No limit" is written as 1e30.
    if (it == json.end() || !it->is_number_integer() || it->get<int64_t>() < 1) return false;
    limit = std::min(limit, it->get<int64_t>());
    return true;
  };
  if (!lower(source.folder->sentence, "max_seq_length")) lower(source.folder->tokenizer_config, "model_max_length");
  return static_cast<int32_t>(limit);
}

}  // namespace

double cosine_similarity(std::span<const float> a, std::span<const float> b) {
  double dot = 0.0, squares_a = 0.0, squares_b = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    dot += static_cast<double>(a[i]) * b[i];
    squares_a += static_cast<double>(a[i]) * a[i];
    squares_b += static_cast<double>(b[i]) * b[i];
  }
  return squares_a == 0.0 || squares_b == 0.0 ? 0.0 : dot / std::sqrt(squares_a * squares_b);
}

float sigmoid(float logit) {
  return static_cast<float>(1.0 / (1.0 + std::exp(-static_cast<double>(logit))));
}

Result<std::unique_ptr<Tokenizer>> open_tokenizer(const ModelSource& source) {
  if (source.gguf) return Tokenizer::from_gguf(source.gguf->metadata(), source.path.string());
  const HfFolder& folder = *source.folder;
  if (!folder.tokenizer_json) return not_found(fmt::format("{}: there is no tokenizer.json", source.path.string()));
  return Tokenizer::from_file(*folder.tokenizer_json, folder.tokenizer_config);
}

Result<std::optional<int32_t>> truncation_length(std::optional<int32_t> truncate_prompt_tokens, int32_t tokens_max) {
  if (!truncate_prompt_tokens) return std::nullopt;
  const int32_t tokens = *truncate_prompt_tokens;
  if (tokens == -1) return tokens_max;
  if (tokens >= 1 && tokens <= tokens_max) return tokens;
  return invalid_argument(fmt::format("truncate_prompt_tokens: {} is neither -1 nor from 1 to the model's limit of {}",
                                      tokens, tokens_max));
}

std::vector<size_t> ranking(std::span<const float> scores) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  return order;
}

Result<std::unique_ptr<EncoderService>> EncoderService::create(std::unique_ptr<ModelSource> source,
                                                               const EncoderOptions& options) {
  std::unique_ptr<EncoderService> service(new EncoderService());
  auto tokenizer = open_tokenizer(*source);
  if (tokenizer) {
    service->tokenizer_ = std::move(*tokenizer);
  } else if (tokenizer.error().code != ErrorCode::kNotFound) {
    return std::unexpected(std::move(tokenizer).error());
  }
  QUERN_ASSIGN(service->device_, make_device(options.device, options.num_threads));
  QUERN_ASSIGN(const QuantScheme scheme, parse_quant_scheme(options.quantization));
  QuantReport report;
  QUERN_ASSIGN(service->model_, load_encoder(*source, *service->device_, {options.precision, scheme, &report}));
  tell_of_quantization(options.quantization, report, options.on_note);
  service->tokens_max_ = tokens_max_of(*source, service->config());
  QUERN_ASSIGN(service->truncation_, truncation_length(options.truncate_prompt_tokens, service->tokens_max_));
  service->source_ = std::move(source);
  return service;
}

Result<std::unique_ptr<EncoderService>> EncoderService::open(const std::filesystem::path& path,
                                                             const EncoderOptions& options) {
  QUERN_ASSIGN(auto source, open_model_source(path));
  return create(std::move(source), options);
}

Result<std::vector<EncoderModel::Output>> EncoderService::forward(std::span<const EncoderInput> inputs) {
  const std::lock_guard lock(mutex_);
  return model_->forward(inputs, false);
}

Result<std::vector<EncoderModel::Output>> EncoderService::forward_encodings(std::span<const Encoding> encodings) {
  std::vector<EncoderInput> inputs;
  for (const Encoding& encoding : encodings) inputs.push_back({encoding.ids, encoding.type_ids});
  return forward(inputs);
}

Result<Encoding> EncoderService::encode_text(const std::string& text, std::string_view name) const {
  EncodeOptions options = kTextOptions;
  options.max_length = truncation_;
  auto encoding = tokenizer_->encode(text, options);
  if (!encoding) return std::unexpected(under_name(std::move(encoding).error(), name));
  QUERN_TRY(check_length(*encoding, name, tokens_max_));
  std::ranges::fill(encoding->type_ids, 0);  // one text: no second segment
  return encoding;
}

Result<Embeddings> EncoderService::embed_encodings(std::span<const Encoding> encodings) {
  QUERN_ASSIGN(auto outputs, forward_encodings(encodings));
  Embeddings result{.prompt_tokens = tokens_of(encodings)};
  for (EncoderModel::Output& output : outputs) result.vectors.push_back(std::move(output.embedding));
  return result;
}

Result<Embeddings> EncoderService::embed(std::span<const std::string> texts) {
  if (config().kind == ModelKind::kClassifier) {
    return unsupported(fmt::format("{}: a classifier has no embeddings", source_->path.string()));
  }
  if (!tokenizer_) return not_found(fmt::format("{}: there is no tokenizer", source_->path.string()));
  std::vector<Encoding> encodings;
  for (size_t i = 0; i < texts.size(); ++i) {
    QUERN_ASSIGN(Encoding encoding, encode_text(texts[i], fmt::format("text {}", i)));
    encodings.push_back(std::move(encoding));
  }
  return embed_encodings(encodings);
}

Result<RelevanceScores> EncoderService::rerank(const std::string& query, std::span<const std::string> documents) {
  if (!tokenizer_) return not_found(fmt::format("{}: there is no tokenizer", source_->path.string()));
  if (config().kind == ModelKind::kClassifier) return classify_pairs(query, documents);
  std::vector<Encoding> encodings;
  for (size_t i = 0; i <= documents.size(); ++i) {
    QUERN_ASSIGN(Encoding encoding, i == 0 ? encode_text(query, "query")
                                           : encode_text(documents[i - 1], fmt::format("document {}", i - 1)));
    encodings.push_back(std::move(encoding));
  }
  QUERN_ASSIGN(const Embeddings embeddings, embed_encodings(encodings));
  RelevanceScores result{.prompt_tokens = embeddings.prompt_tokens};
  for (size_t i = 1; i < embeddings.vectors.size(); ++i) {
    result.scores.push_back(static_cast<float>(cosine_similarity(embeddings.vectors[0], embeddings.vectors[i])));
  }
  return result;
}

Result<RelevanceScores> EncoderService::classify_pairs(const std::string& query,
                                                       std::span<const std::string> documents) {
  std::vector<Encoding> encodings;
  for (size_t i = 0; i < documents.size(); ++i) {
    const std::string name = fmt::format("document {}", i);
    auto encoding = tokenizer_->encode_pair(query, documents[i], kTextOptions, truncation_);
    if (!encoding) return std::unexpected(under_name(std::move(encoding).error(), name));
    QUERN_TRY(check_length(*encoding, name + " with the query", tokens_max_));
    encodings.push_back(std::move(*encoding));
  }
  QUERN_ASSIGN(const auto outputs, forward_encodings(encodings));
  RelevanceScores result{.prompt_tokens = tokens_of(encodings)};
  for (const EncoderModel::Output& output : outputs) {
    if (output.scores.size() != 1) {
      return unsupported(fmt::format("{}: a classifier of {} labels, a relevance score needs one",
                                     source_->path.string(), output.scores.size()));
    }
    result.scores.push_back(sigmoid(output.scores[0]));
  }
  return result;
}

Result<EncoderModel::Output> EncoderService::run(const EncoderInput& input, bool keep_hidden, const HiddenTap* tap) {
  const std::lock_guard lock(mutex_);
  QUERN_ASSIGN(auto outputs, model_->forward({&input, 1}, keep_hidden, tap));
  return std::move(outputs[0]);
}

}  // namespace quern
