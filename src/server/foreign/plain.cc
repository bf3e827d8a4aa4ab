#include "server/foreign/plain.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/status.h"
#include "server/fields.h"
#include "server/rerank/routes.h"

namespace quern::foreign {
namespace {

class SglangText final : public Translation {
 public:
  using Translation::Translation;
  ApiResult<Json> whole(const Json& answer) override { return Json{{"prompt", member(answer, "text")}}; }
};

constexpr std::string_view kLimits[] = {"max_tokens", "max_completion_tokens"};

constexpr size_t kDocumentsMax = 16384;

class Rerank final : public Translation {
 public:
  Rerank(Json body, Json documents, const Asked& asked, bool shows_documents)
      : Translation("/v1/rerank", std::move(body)),
        documents_(std::move(documents)),
        shown_name_(asked.shown_name),
        shows_documents_(shows_documents) {}

  ApiResult<Json> whole(const Json& answer) override {
    const Json given = answer.is_array() ? answer : member(answer, "results");  // SGLang's is the list itself
    const ApiError unread{.status = 502, .message = "the worker's answer has no results", .type = "worker_error"};
    if (!given.is_array()) return std::unexpected(unread);
    std::vector<std::pair<double, size_t>> ranks;
    for (const Json& result : given) {
      const Json index = member(result, "index");
      Json score = member(result, "relevance_score");
      if (score.is_null()) score = member(result, "score");  // SGLang's
      if (!index.is_number_unsigned() || !score.is_number()) return std::unexpected(unread);
      if (index.get<size_t>() >= documents_.size()) return std::unexpected(unread);
      ranks.emplace_back(score.get<double>(), index.get<size_t>());
    }
    std::ranges::stable_sort(ranks, std::greater<>(), &std::pair<double, size_t>::first);
    Json results = Json::array();
    for (const auto& [score, index] : ranks) {
      Json& result = results.emplace_back(Json{{"index", index}, {"relevance_score", score}});
      const Json& document = documents_[index];
      if (shows_documents_) result["document"] = document.is_string() ? Json{{"text", document}} : document;
    }
    Json total = member(member(answer, "usage"), "total_tokens");
    if (!total.is_number()) total = 0;
    return Json{{"id", random_id("rerank-")},
                {"model", shown_name_},
                {"results", std::move(results)},
                {"usage", {{"prompt_tokens", total}, {"total_tokens", total}}},
                {"meta",
                 {{"api_version", {{"version", "2"}}},
                  {"billed_units", {{"search_units", 1}}},
                  {"tokens", {{"input_tokens", total}, {"output_tokens", 0}}}}}};
  }

 private:
  const Json documents_;
  const std::string shown_name_;
  const bool shows_documents_;
};

}  // namespace

Json member(const Json& value, const char* name) {
  const auto it = value.is_object() ? value.find(name) : value.end();
  return it == value.end() ? Json() : *it;
}

Json with_model(Json body, const std::string& name) {
  body["model"] = name;
  return body;
}

ApiResult<std::unique_ptr<Translation>> tokenize_as_tokenize(const Asked& asked) {
  return std::make_unique<Moved>("/tokenize", with_model(asked.body, asked.worker_name));
}

ApiResult<std::unique_ptr<Translation>> detokenize_as_detokenize(const Asked& asked) {
  return std::make_unique<Moved>("/detokenize", with_model(asked.body, asked.worker_name));
}

ApiResult<std::unique_ptr<Translation>> detokenize_of_sglang(const Asked& asked) {
  return std::make_unique<SglangText>("/detokenize", with_model(asked.body, asked.worker_name));
}

bool names_large_limit(std::string_view body, int64_t context) {
  if (context <= 0) return false;
  for (const std::string_view name : kLimits) {
    for (size_t at = 0; (at = body.find(name, at)) != std::string_view::npos;) {
      at = body.find_first_not_of("\": \t\r\n", at + name.size());
      if (at == std::string_view::npos) break;
      int64_t limit = 0;
      const auto end = std::from_chars(body.data() + at, body.data() + body.size(), limit);
      if (end.ec == std::errc::result_out_of_range || limit > context) return true;
    }
  }
  return false;
}

void bound_limits(Json& body, int64_t context) {
  if (context <= 0) return;
  for (const std::string_view name : kLimits) {
    const auto limit = body.find(name);
    if (limit != body.end() && limit->is_number() && *limit > context) *limit = context;
  }
}

ApiResult<std::unique_ptr<Translation>> limits_of_vllm(const Asked& asked) {
  Json body = with_model(asked.body, asked.worker_name);
  bound_limits(body, asked.context);
  return std::make_unique<Moved>(std::string(asked.path), std::move(body));
}

ApiResult<std::unique_ptr<Translation>> rerank_as_rerank(const Asked& asked) {
  const auto body = rerank::with_kwargs(asked.body);
  if (!body) return std::unexpected(body.error());
  Fields fields(*body);
  fields.accept({"model", "user", "priority", "return_len"});
  const auto query = fields.string("query");
  if (!query) fields.fault("query", "query: is missing");
  const Json* documents = fields.array("documents");
  if (documents == nullptr || documents->empty() || documents->size() > kDocumentsMax) {
    fields.fault("documents", fmt::format("documents: must be a list of 1 to {}", kDocumentsMax));
  }
  const auto top_n = fields.integer("top_n", 1, std::numeric_limits<int32_t>::max());
  const bool shows_documents = fields.boolean("return_documents").value_or(false);
  for (const char* name : {"max_chunks_per_doc", "max_tokens_per_doc", "truncate_prompt_tokens"}) {
    if (fields.any(name) == nullptr) continue;
    fields.fault(name, fmt::format("{}: is not supported with engine {}", name, asked.engine));
  }
  fields.refuse_unknown();
  if (!fields.ok()) return std::unexpected(fields.take_error());
  Json texts = Json::array();
  for (const Json& document : *documents) {
    const Json text = document.is_object() ? document.value("text", Json()) : document;
    if (!text.is_string()) {
      return bad_field("documents",
                       fmt::format("documents[{}]: must be a string or an object with a text", texts.size()));
    }
    texts.push_back(text);
  }
  Json to = {{"model", asked.worker_name}, {"query", *query}, {"documents", std::move(texts)}};
  if (top_n) to["top_n"] = *top_n;
  return std::make_unique<Rerank>(std::move(to), *documents, asked, shows_documents);
}

}  // namespace quern::foreign
