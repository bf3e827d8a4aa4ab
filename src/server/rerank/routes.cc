#include "server/rerank/routes.h"

#include <algorithm>
#include <limits>

#include "base/status.h"
#include "server/encode.h"
#include "server/fields.h"
#include "server/model_body.h"

namespace quern::rerank {
namespace {

using http::asio::awaitable;

struct Job {
  const ServedModel* model = nullptr;
  std::vector<TextPair> pairs;
  Json documents;  // as they came
  size_t top_n = 0;
  bool return_documents = false;
  std::optional<int32_t> truncation;
};

// A string, or an object with a text.
ApiResult<std::string> text_of(const Json& document, size_t index) {
  if (document.is_string()) return document.get<std::string>();
  if (document.is_object()) {
    const auto text = document.find("text");
    if (text != document.end() && text->is_string()) return text->get<std::string>();
  }
  return bad_field("documents", fmt::format("documents[{}]: must be a string or an object with a text", index));
}

// max_tokens_per_doc cuts a document by its own tokens, before it meets the query.
ApiResult<std::string> cut_document(const ServedModel& model, std::string text, std::optional<int64_t> tokens_max) {
  if (!tokens_max) return text;
  const Tokenizer& tokenizer = model.text->tokenizer();
  auto encoding = tokenizer.encode(text, {.add_special = false, .parse_special = false});
  if (!encoding) return std::unexpected(to_api_error(encoding.error()));
  if (std::ssize(encoding->ids) <= *tokens_max) return text;
  encoding->ids.resize(static_cast<size_t>(*tokens_max));
  auto cut = tokenizer.decode(encoding->ids, true);
  if (!cut) return std::unexpected(to_api_error(cut.error()));
  return std::move(*cut);
}

ApiResult<Job> prepare(const ModelTable& models, const http::Request& request) {
  const auto read = read_model_body(models, request, &ModelTable::find_scorer);
  if (!read) return std::unexpected(read.error());
  const ServedModel* const model = read->model;
  const auto body = with_kwargs(read->body);
  if (!body) return std::unexpected(body.error());
  Fields fields(*body);
  fields.accept({"model", "user", "priority"});
  fields.boolean("return_len");  // Xinference's: lengths are always told, in `meta`
  if (fields.any("max_chunks_per_doc") != nullptr) {
    fields.fault("max_chunks_per_doc", "max_chunks_per_doc: documents are not cut into chunks");
  }
  const auto query = fields.string("query");
  if (!query) fields.fault("query", "query: is missing");
  const Json* documents = fields.array("documents");
  if (documents == nullptr) {
    fields.fault("documents", "documents: is missing");
  } else if (documents->empty() || documents->size() > kEncoderInputsMax) {
    fields.fault("documents",
                 fmt::format("documents: {} documents, 1 to {} are allowed", documents->size(), kEncoderInputsMax));
  }
  Job job{.model = model, .pairs = {}};
  const auto top_n = fields.integer("top_n", 1, std::numeric_limits<int32_t>::max());
  const auto document_tokens = fields.integer("max_tokens_per_doc", 1, std::numeric_limits<int32_t>::max());
  job.return_documents = fields.boolean("return_documents").value_or(false);
  job.truncation = read_truncation(fields, model->encoder->tokens_max());
  fields.refuse_unknown();
  if (!fields.ok()) return std::unexpected(fields.take_error());
  for (size_t i = 0; i < documents->size(); ++i) {
    auto text = text_of((*documents)[i], i);
    if (text) text = cut_document(*model, std::move(*text), document_tokens);
    if (!text) return std::unexpected(text.error());
    job.pairs.emplace_back(*query, std::move(*text));
  }
  job.documents = *documents;
  job.top_n = std::min(job.pairs.size(), static_cast<size_t>(top_n.value_or(std::numeric_limits<int32_t>::max())));
  return job;
}

Json answer_body(const Job& job, const PairScores& scores) {
  Json results = Json::array();
  for (const size_t index : ranking(scores.scores)) {
    if (results.size() == job.top_n) break;
    Json result = {{"index", index}, {"relevance_score", scores.scores[index]}};
    if (job.return_documents) {
      const Json& document = job.documents[index];
      result["document"] = document.is_string() ? Json{{"text", document}} : document;
    }
    results.push_back(std::move(result));
  }
  return {{"id", random_id("rerank-")},
          {"model", job.model->id},
          {"results", std::move(results)},
          {"usage", {{"prompt_tokens", scores.prompt_tokens}, {"total_tokens", scores.prompt_tokens}}},
          {"meta",
           {{"api_version", {{"version", "2"}}},
            {"billed_units", {{"search_units", 1}}},
            {"tokens", {{"input_tokens", scores.prompt_tokens}, {"output_tokens", 0}}}}}};
}

awaitable<void> rerank(const ModelTable& models, const http::Request& request, http::Reply& reply) {
  auto job = prepare(models, request);
  if (!job) co_return co_await send_error(reply, job.error());
  auto scores = co_await score_pairs(*job->model, std::move(job->pairs), job->truncation, reply);
  if (!scores && scores.error().param == "input") scores.error().param = "documents";
  if (scores) co_return co_await send_json(reply, answer_body(*job, *scores));
  if (scores.error().status != 0) co_await send_error(reply, scores.error());
}

}  // namespace

ApiResult<Json> with_kwargs(Json body) {
  const auto kwargs = body.find("kwargs");
  if (kwargs == body.end()) return body;
  Json more = Json::object();
  if (!kwargs->is_null()) {
    if (!kwargs->is_string()) return bad_field("kwargs", "kwargs: must be an object as JSON text");
    auto parsed = parse_json(kwargs->get_ref<const std::string&>(), "kwargs");
    if (!parsed || !parsed->is_object()) return bad_field("kwargs", "kwargs: must be an object as JSON text");
    more = std::move(*parsed);
  }
  body.erase("kwargs");
  for (auto& item : more.items()) {
    Json& value = body[item.key()];
    if (value.is_null()) value = std::move(item.value());
  }
  return body;
}

Routes routes() {
  return {traced({"POST", "/rerank", rerank}), traced({"POST", "/v1/rerank", rerank}),
          traced({"POST", "/v2/rerank", rerank})};
}

}  // namespace quern::rerank
