// /score and /classify, as vLLM has them.
#include <algorithm>
#include <cmath>

#include "base/status.h"
#include "server/encode.h"
#include "server/fields.h"
#include "server/model_body.h"
#include "server/openai/embeddings.h"

namespace quern::openai {
namespace {

using http::asio::awaitable;

struct ScoreJob {
  const ServedModel* model = nullptr;
  std::vector<TextPair> pairs;
  std::optional<int32_t> truncation;
};

// One text against each of many, or as many against as many.
ApiResult<std::vector<TextPair>> pair_up(const std::vector<std::string>& first,
                                         const std::vector<std::string>& second) {
  if (first.empty()) return bad_field("text_1", "text_1: must not be empty");
  if (second.empty()) return bad_field("text_2", "text_2: must not be empty");
  if (first.size() != 1 && first.size() != second.size()) {
    return bad_field(
        "text_1", fmt::format("text_1: {} texts for {}: one, or as many as text_2 has", first.size(), second.size()));
  }
  std::vector<TextPair> pairs;
  for (size_t i = 0; i < second.size(); ++i) pairs.emplace_back(first[first.size() == 1 ? 0 : i], second[i]);
  return pairs;
}

ApiResult<ScoreJob> prepare_score(const ModelTable& models, const http::Request& request) {
  const auto read = read_model_body(models, request, &ModelTable::find_scorer);
  if (!read) return std::unexpected(read.error());
  const auto& [body, model] = *read;
  Fields fields(body);
  fields.accept({"model", "user"});
  const char* first_name = fields.any("queries") != nullptr ? "queries" : "text_1";
  const char* second_name = fields.any("documents") != nullptr ? "documents" : "text_2";
  const auto first = fields.string_or_strings(first_name, kEncoderInputsMax);
  if (!first) fields.fault(first_name, fmt::format("{}: is missing", first_name));
  const auto second = fields.string_or_strings(second_name, kEncoderInputsMax);
  if (!second) fields.fault(second_name, fmt::format("{}: is missing", second_name));
  ScoreJob job{.model = model, .pairs = {}, .truncation = read_truncation(fields, model->encoder->tokens_max())};
  fields.refuse_unknown();
  if (!fields.ok()) return std::unexpected(fields.take_error());
  auto pairs = pair_up(*first, *second);
  if (!pairs) return std::unexpected(pairs.error());
  job.pairs = std::move(*pairs);
  return job;
}

Json list_body(const ServedModel& model, std::string_view id_prefix, Json data, int64_t prompt_tokens) {
  return {{"id", random_id(id_prefix)},
          {"object", "list"},
          {"created", unix_seconds()},
          {"model", model.id},
          {"data", std::move(data)},
          {"usage", {{"prompt_tokens", prompt_tokens}, {"total_tokens", prompt_tokens}, {"completion_tokens", 0}}}};
}

Json score_body(const ServedModel& model, const PairScores& scores) {
  Json data = Json::array();
  for (size_t i = 0; i < scores.scores.size(); ++i) {
    data.push_back({{"index", i}, {"object", "score"}, {"score", scores.scores[i]}});
  }
  return list_body(model, "score-", std::move(data), scores.prompt_tokens);
}

struct ClassifyJob {
  const ServedModel* model = nullptr;
  std::vector<Encoding> inputs;
  bool activate = true;
};

ApiResult<ClassifyJob> prepare_classify(const ModelTable& models, const http::Request& request) {
  const auto read = read_model_body(models, request, &ModelTable::find_classifier);
  if (!read) return std::unexpected(read.error());
  const auto& [body, model] = *read;
  ClassifyJob job{.model = model, .inputs = {}};
  Fields fields(body);
  fields.accept({"model", "user"});
  const auto input = fields.string_or_strings("input", kEncoderInputsMax);
  if (!input) fields.fault("input", "input: is missing");
  if (input && input->empty()) fields.fault("input", "input: must not be empty");
  const auto truncation = read_truncation(fields, model->encoder->tokens_max());
  job.activate = fields.boolean("use_activation").value_or(true);
  fields.refuse_unknown();
  if (!fields.ok()) return std::unexpected(fields.take_error());
  for (const std::string& text : *input) {
    auto encoding = encode_text(*model, text, true, truncation);
    if (!encoding) return std::unexpected(encoding.error());
    job.inputs.push_back(std::move(*encoding));
  }
  return job;
}

// Logits to probabilities: of several labels exactly one holds, a single one holds or not.
void activate(std::vector<float>& scores) {
  if (scores.size() == 1) {
    scores[0] = sigmoid(scores[0]);
    return;
  }
  const float top = *std::ranges::max_element(scores);
  double sum = 0;
  for (float& x : scores) sum += x = static_cast<float>(std::exp(static_cast<double>(x) - top));
  for (float& x : scores) x = static_cast<float>(x / sum);
}

Json classify_body(const ClassifyJob& job, EncoderAnswer& answer) {
  const std::vector<std::string>& labels = job.model->encoder->labels();
  Json data = Json::array();
  for (size_t i = 0; i < answer.outputs.size(); ++i) {
    std::vector<float>& scores = answer.outputs[i].scores;
    if (job.activate) activate(scores);
    const auto best = static_cast<size_t>(std::ranges::max_element(scores) - scores.begin());
    data.push_back({{"index", i},
                    {"label", best < labels.size() ? labels[best] : fmt::format("LABEL_{}", best)},
                    {"probs", scores},
                    {"num_classes", scores.size()}});
  }
  return list_body(*job.model, "classify-", std::move(data), answer.prompt_tokens);
}

}  // namespace

awaitable<void> score(const ModelTable& models, const http::Request& request, http::Reply& reply) {
  auto job = prepare_score(models, request);
  if (!job) co_return co_await send_error(reply, job.error());
  auto scores = co_await score_pairs(*job->model, std::move(job->pairs), job->truncation, reply);
  if (!scores && scores.error().param == "input") scores.error().param = "text_2";
  if (scores) co_return co_await send_json(reply, score_body(*job->model, *scores));
  if (scores.error().status != 0) co_await send_error(reply, scores.error());
}

awaitable<void> classify(const ModelTable& models, const http::Request& request, http::Reply& reply) {
  auto job = prepare_classify(models, request);
  if (!job) co_return co_await send_error(reply, job.error());
  auto answer = co_await run_encoder(*job->model, std::move(job->inputs), reply);
  if (answer) co_return co_await send_json(reply, classify_body(*job, *answer));
  if (answer.error().status != 0) co_await send_error(reply, answer.error());
}

}  // namespace quern::openai
