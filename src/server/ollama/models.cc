// Ollama's routes about models, and embeddings.
#include "base/status.h"
#include "server/encode.h"
#include "server/ollama/answer.h"
#include "server/ollama/request.h"
#include "server/ollama/routes.h"

namespace quern::ollama {
namespace {

using http::asio::awaitable;

struct EmbedJob {
  const ServedModel* model = nullptr;
  std::vector<Encoding> inputs;
  int32_t dimensions = 0;  // 0: all
};

// `field`: "input" of /api/embed, a string or a list; "prompt" of /api/embeddings, a string.
ApiResult<EmbedJob> prepare(const ModelTable& models, const http::Request& request, const char* field) {
  auto body = parse_body(request);
  if (!body) return std::unexpected(body.error());
  const auto choice = find_model(models, *body);
  if (!choice) return std::unexpected(choice.error());
  const ServedModel& model = *choice->model;
  if (model.task != ModelTask::kEmbed) {
    return std::unexpected(ApiError{.message = fmt::format("\"{}\" does not support embeddings", model.id)});
  }
  EmbedJob job{.model = &model, .inputs = {}};
  const int32_t tokens_max = model.encoder->tokens_max();
  Fields fields(*body);
  fields.accept({"model", "name", "options"});
  accept_residency(fields);
  const auto texts = fields.string_or_strings(field, kEncoderInputsMax);
  if (!texts) fields.fault(field, fmt::format("{}: is missing", field));
  const bool truncate = fields.boolean("truncate").value_or(true);
  job.dimensions = static_cast<int32_t>(fields.integer("dimensions", 1, model.encoder->width()).value_or(0));
  fields.refuse_unknown();
  if (!fields.ok()) return std::unexpected(fields.take_error());
  for (const std::string& text : *texts) {
    auto encoding = encode_text(model, text, true, truncate ? std::optional(tokens_max) : std::nullopt);
    if (!encoding) return std::unexpected(encoding.error());
    job.inputs.push_back(std::move(*encoding));
  }
  return job;
}

Json embed_body(const EmbedJob& job, EncoderAnswer& answer, Clock::time_point begin) {
  Json vectors = Json::array();
  for (EncoderModel::Output& output : answer.outputs) {
    shorten_embedding(output.embedding, job.dimensions);
    vectors.push_back(output.embedding);
  }
  return {{"model", job.model->id},
          {"embeddings", std::move(vectors)},
          {"total_duration", std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin).count()},
          {"load_duration", 0},
          {"prompt_eval_count", answer.prompt_tokens}};
}

Json list_body(const ModelTable& models, const http::Request& request,
               Json (*entry)(const ServedModel&, const std::string& adapter)) {
  Json list = Json::array();
  for (const ServedModel& model : models.models()) {
    if (may_use_model(request, model.id)) list.push_back(entry(model, ""));
    if (!model.engine) continue;
    for (const AdapterInfo& adapter : model.engine->adapters().list()) {
      if (may_use_model(request, adapter.name)) list.push_back(entry(model, adapter.name));
    }
  }
  return {{"models", std::move(list)}};
}

// A model of the fleet comes here when the door sends it to no worker: see Door::serve().
std::optional<ModelView> fleet_model(const Fleet* fleet, const Json& body) {
  if (fleet == nullptr || !body.is_object()) return std::nullopt;
  const auto value = body.find(body.contains("model") ? "model" : "name");
  if (value == body.end() || !value->is_string()) return std::nullopt;
  std::string name = value->get<std::string>();
  auto known = fleet->resolve(name);
  constexpr std::string_view kLatest = ":latest";
  if (!known && name.ends_with(kLatest)) known = fleet->resolve(name.substr(0, name.size() - kLatest.size()));
  return known ? fleet->model(known->uid) : std::nullopt;
}

ApiResult<Json> show_body(const Fleet* fleet, const ModelTable& models, const http::Request& request) {
  auto body = parse_body(request);
  if (!body) return std::unexpected(body.error());
  const auto choice = find_model(models, *body);
  if (const auto model = choice ? std::nullopt : fleet_model(fleet, *body)) return fleet_details(*model);
  if (!choice) return std::unexpected(choice.error());
  return model_details(*choice->model, choice->adapter);
}

Json embedding_body(const EncoderAnswer& answer) {
  return {{"embedding", answer.outputs[0].embedding}};
}

EncoderAnswer no_answer() {
  return {};
}

}  // namespace

RouteFunction tags(const Fleet* fleet) {
  return [fleet](const ModelTable& models, const http::Request& request, http::Reply& reply) -> awaitable<void> {
    Json body = list_body(models, request, model_entry);
    if (fleet != nullptr) {
      for (const ModelView& model : fleet->models()) {
        if (may_use_model(request, model.spec.uid)) body["models"].push_back(fleet_entry(model));
      }
    }
    return send_json(reply, body);
  };
}

// Of the fleet, those that are in memory.
RouteFunction ps(const Fleet* fleet) {
  return [fleet](const ModelTable& models, const http::Request& request, http::Reply& reply) -> awaitable<void> {
    Json body = list_body(models, request, running_entry);
    if (fleet != nullptr) {
      for (const ModelView& model : fleet->models()) {
        if (!may_use_model(request, model.spec.uid)) continue;
        if (auto entry = running_fleet_entry(model)) body["models"].push_back(std::move(*entry));
      }
    }
    return send_json(reply, body);
  };
}

RouteFunction show(const Fleet* fleet) {
  return [fleet](const ModelTable& models, const http::Request& request, http::Reply& reply) -> awaitable<void> {
    const auto body = show_body(fleet, models, request);
    return body ? send_json(reply, *body) : send_error(reply, body.error(), error_body);
  };
}

awaitable<void> embed(const ModelTable& models, const http::Request& request, http::Reply& reply) {
  const auto begin = Clock::now();
  auto job = prepare(models, request, "input");
  if (!job) co_return co_await send_error(reply, job.error(), error_body);
  ApiResult<EncoderAnswer> answer = no_answer();  // an empty list has an empty answer
  if (!job->inputs.empty()) answer = co_await run_encoder(*job->model, std::move(job->inputs), reply);
  if (answer) co_return co_await send_json(reply, embed_body(*job, *answer, begin));
  if (answer.error().status != 0) co_await send_error(reply, answer.error(), error_body);
}

awaitable<void> embeddings(const ModelTable& models, const http::Request& request, http::Reply& reply) {
  auto job = prepare(models, request, "prompt");
  if (job && job->inputs.size() != 1) job = bad_field("prompt", "prompt: must be one string");
  if (!job) co_return co_await send_error(reply, job.error(), error_body);
  const auto answer = co_await run_encoder(*job->model, std::move(job->inputs), reply);
  if (answer) co_return co_await send_json(reply, embedding_body(*answer));
  if (answer.error().status != 0) co_await send_error(reply, answer.error(), error_body);
}

}  // namespace quern::ollama
