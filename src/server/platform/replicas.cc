// Copies of a model, how far a launch has come, instances as Xinference counts them, and requests that are to end.
#include <algorithm>
#include <thread>

#include "base/status.h"
#include "server/fields.h"
#include "server/platform/describe.h"
#include "server/platform/json_route.h"
#include "server/platform/routes.h"
#include "server/platform/words.h"

namespace quern::platform {
namespace {

constexpr int64_t kReplicasMax = 64;
constexpr int32_t kLooksMax = 20;
constexpr std::chrono::milliseconds kLookPause{25};

ApiResult<ModelView> find_view(const Context& context, const std::string& uid) {
  const auto view = context.fleet == nullptr ? std::nullopt : context.fleet->model(uid);
  if (!view) return std::unexpected(unknown_model(uid));
  return *view;
}

ApiResult<Json> list_replicas(const Context& context, const ModelTable& models, const http::Request& request) {
  Json list = Json::array();
  if (models.find(request.params[0])) return list;  // served by this process itself
  const auto view = find_view(context, request.params[0]);
  if (!view) return std::unexpected(view.error());
  for (const ReplicaView& replica : view->replicas) list.push_back(describe(replica, *view));
  return list;
}

// How many replicas the body wishes; one more where it does not say.
ApiResult<int32_t> wished_replicas(const ModelView& view, const http::Request& request) {
  const Json nothing = Json::object();
  const auto body = request.body.empty() ? ApiResult<Json>(nothing) : parse_body(request);
  if (!body) return std::unexpected(body.error());
  Fields fields(*body);
  const auto count = fields.integer("replicas", 0, kReplicasMax);
  if (fields.any("replica_config") != nullptr) {
    fields.fault("replica_config", "replica_config: a model's replicas all have the place it was launched with");
  }
  fields.refuse_unknown();
  if (!fields.ok()) return std::unexpected(fields.take_error());
  if (!count && view.spec.replicas >= kReplicasMax) {
    return bad_field("replicas", fmt::format("replicas: {} are the most", kReplicasMax));
  }
  return static_cast<int32_t>(count.value_or(view.spec.replicas + 1));
}

ApiResult<Json> add_replica(const Context& context, const ModelTable&, const http::Request& request) {
  if (const auto allowed = context.check_changes(); !allowed) return std::unexpected(allowed.error());
  const auto view = find_view(context, request.params[0]);
  if (!view) return std::unexpected(view.error());
  const auto count = wished_replicas(*view, request);
  if (!count) return std::unexpected(count.error());
  if (const Status status = context.fleet->set_replicas(view->spec.uid, *count); !status) {
    return std::unexpected(platform_error(status.error()));
  }
  // The fleet's thread makes the replica in one of its next turns.
  auto after = context.fleet->model(view->spec.uid);
  for (int32_t looks = 0; looks < kLooksMax && after && std::ssize(after->replicas) < *count; ++looks) {
    std::this_thread::sleep_for(kLookPause);
    after = context.fleet->model(view->spec.uid);
  }
  const ReplicaView* last = nullptr;
  if (after && !after->replicas.empty()) last = &after->replicas.back();
  return Json{{"replica_id", last == nullptr ? Json(nullptr) : Json(replica_index(last->id))},
              {"replica_model_uid", last == nullptr ? Json(nullptr) : Json(last->id)},
              {"worker_address", last == nullptr ? Json(nullptr) : Json(last->node)},
              {"replicas", *count}};
}

// A replica by its id ("UID-1") or, as Xinference has it, its number.
ApiResult<std::string> find_replica(const ModelView& view, const std::string& id) {
  for (const ReplicaView& replica : view.replicas) {
    if (replica.id == id || std::to_string(replica_index(replica.id)) == id) return replica.id;
  }
  return std::unexpected(ApiError{
      .status = 404, .message = fmt::format("{} has no replica {}", view.spec.uid, id), .param = "replica_id"});
}

ApiResult<Json> remove_replica(const Context& context, const ModelTable&, const http::Request& request) {
  if (const auto allowed = context.check_changes(); !allowed) return std::unexpected(allowed.error());
  const auto view = find_view(context, request.params[0]);
  if (!view) return std::unexpected(view.error());
  const auto replica = find_replica(*view, request.params[1]);
  if (!replica) return std::unexpected(replica.error());
  const int32_t remaining = std::max(0, view->spec.replicas - 1);
  // As in Xinference, a model ends with its last replica.
  const Status status =
      remaining == 0 ? context.fleet->terminate(view->spec.uid) : context.fleet->stop_replica(view->spec.uid, *replica);
  if (!status) return std::unexpected(platform_error(status.error()));
  return Json{{"remaining_replicas", remaining}};
}

Json instance_json(const ModelView& view) {
  Json replicas = Json::array();
  for (const ReplicaView& replica : view.replicas) replicas.push_back(describe(replica, view));
  return {{"model_name", view.spec.model_name},
          {"model_uid", view.spec.uid},
          {"model_version", nullptr},
          {"model_ability", abilities_of(view)},
          {"replica", view.spec.replicas},
          {"status", model_state_name(view.state)},
          {"instance_created_ts", view.created},
          {"n_worker", 1},
          {"replica_statuses", std::move(replicas)}};
}

Json instance_json(const ServedModel& model) {
  return {{"model_name", model.id},
          {"model_uid", model.id},
          {"model_version", nullptr},
          {"model_ability", abilities_of(model)},
          {"replica", 1},
          {"status", "READY"},
          {"instance_created_ts", model.created},
          {"n_worker", 1},
          {"replica_statuses", Json::array()}};
}

ApiResult<Json> list_instances(const Context& context, const ModelTable& models, const http::Request& request) {
  const auto name = request.query_value("model_name").value_or("");
  const auto uid = request.query_value("model_uid").value_or("");
  Json list = Json::array();
  const auto add = [&](Json json) {
    const bool fits = (name.empty() || json["model_name"] == name) && (uid.empty() || json["model_uid"] == uid);
    if (fits) list.push_back(std::move(json));
  };
  for (const ServedModel& model : models.models()) add(instance_json(model));
  if (context.fleet != nullptr) {
    for (const ModelView& view : context.fleet->models()) add(instance_json(view));
  }
  return list;
}

// "downloading" where any replica pulls: what a user waits for first.
std::string_view stage_of(const ModelView& view) {
  const auto any = [&](ReplicaState state) {
    return std::ranges::any_of(view.replicas, [state](const ReplicaView& replica) { return replica.state == state; });
  };
  if (view.state == ModelState::kReady) return "ready";
  if (view.state == ModelState::kError) return "error";
  if (any(ReplicaState::kPulling)) return "downloading";
  if (any(ReplicaState::kLoading)) return "loading";
  return "pending";
}

Json progress_json(double progress, std::string_view stage, Json replicas) {
  return {
      {"progress", progress}, {"stage", stage}, {"download_files", Json::array()}, {"replicas", std::move(replicas)}};
}

// One that nobody has launched yet is pending, as in Xinference: its client asks before its launch is known.
ApiResult<Json> show_progress(const Context& context, const ModelTable& models, const http::Request& request) {
  Json list = Json::array();
  if (models.find(request.params[0])) return progress_json(1, "ready", std::move(list));
  const auto view = find_view(context, request.params[0]);
  if (!view) return progress_json(0, "pending", std::move(list));
  for (const ReplicaView& replica : view->replicas) {
    list.push_back({{"replica_id", replica_index(replica.id)},
                    {"replica_model_uid", replica.id},
                    {"progress", replica.progress},
                    {"stage", replica_state_name(replica.state)},
                    {"info", replica.message},
                    {"updated_at", nullptr},
                    {"download_files", Json::array()}});
  }
  return progress_json(view->progress, stage_of(*view), std::move(list));
}

ApiResult<Json> abort_request(const Context& context, const ModelTable& models, const http::Request& request) {
  const std::string& uid = request.params[0];
  const bool known = models.choose_any(uid).has_value() || (context.fleet != nullptr && context.fleet->knows(uid));
  if (!known) return std::unexpected(unknown_model(uid));
  const Json nothing = Json::object();
  const auto body = request.body.empty() ? ApiResult<Json>(nothing) : parse_body(request);
  if (!body) return std::unexpected(body.error());
  Fields fields(*body);
  const auto block = fields.integer("block_duration", 0, kBlockMax.count());
  fields.refuse_unknown();
  if (!fields.ok()) return std::unexpected(fields.take_error());
  if (context.running->abort(request.params[1], std::chrono::seconds(block.value_or(0)))) return Json{{"msg", "DONE"}};
  return Json{{"msg", "NOT_FOUND"}, {"detail", fmt::format("no request {} runs", request.params[1])}};
}

}  // namespace

Routes replica_routes(const Context& context) {
  return {
      needs(people::Scope::kModelsList, {"GET", "/v1/models/instances", json_route(context, list_instances)}),
      needs(people::Scope::kModelsList, {"GET", "/v1/models/{uid*}/replicas", json_route(context, list_replicas)}),
      needs(people::Scope::kModelsWrite, {"POST", "/v1/models/{uid*}/replicas", json_route(context, add_replica)}),
      needs(people::Scope::kModelsWrite,
            {"DELETE", "/v1/models/{uid*}/replicas/{replica}", json_route(context, remove_replica)}),
      needs(people::Scope::kModelsList, {"GET", "/v1/models/{uid*}/progress", json_route(context, show_progress)}),
      needs(people::Scope::kModelsWrite,
            {"POST", "/v1/models/{uid*}/requests/{request_id}/abort", json_route(context, abort_request)}),
  };
}

}  // namespace quern::platform
