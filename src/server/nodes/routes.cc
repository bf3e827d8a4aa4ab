#include "server/nodes/routes.h"

#include "base/status.h"
#include "server/devices/recent_inventory.h"
#include "server/keys.h"
#include "server/platform/json_route.h"

namespace quern::nodes {
namespace {

using platform::Context;
using platform::json_route;

constexpr size_t kNodeBodyMax = 4u << 20;

ApiResult<FleetNodes*> find_nodes(const Context& context) {
  const auto fleet = context.find_fleet();
  if (!fleet) return std::unexpected(fleet.error());
  if (FleetNodes* nodes = (*fleet)->nodes()) return nodes;
  return std::unexpected(ApiError{.message = "this server has no machines beside its own", .code = "no_nodes"});
}

ApiResult<Json> node_body(const http::Request& request) {
  if (request.body.size() <= kNodeBodyMax) return parse_body(request);
  return std::unexpected(
      ApiError{.status = 413, .message = fmt::format("{} bytes, at most {}", request.body.size(), kNodeBodyMax)});
}

// A name that is taken may be free a moment later: not the error of a bad token.
ApiError node_error(const Error& error) {
  ApiError result = platform::platform_error(error);
  if (error.code == ErrorCode::kPermissionDenied) {
    result.status = 409;
    result.type = "invalid_request_error";
    result.code = "name_taken";
  }
  return result;
}

ApiResult<Json> join(const Context& context, const ModelTable&, const http::Request& request) {
  const auto nodes = find_nodes(context);
  if (!nodes) return std::unexpected(nodes.error());
  const auto body = node_body(request);
  if (!body) return std::unexpected(body.error());
  auto joined = node_join_from_json(*body);
  if (!joined) return std::unexpected(node_error(joined.error()));
  const std::string name = joined->name;
  if (const Status status = (*nodes)->join(std::move(*joined)); !status) {
    return std::unexpected(node_error(status.error()));
  }
  return Json{{"name", name}};
}

ApiError unknown_machine(const std::string& message) {
  return {.status = 401, .message = message, .type = "authentication_error", .code = "invalid_api_key"};
}
ApiError heartbeat_error(const Error& error) {
  return error.code == ErrorCode::kPermissionDenied ? unknown_machine(error.message) : node_error(error);
}

// The machine's own key says who it is, before anything of its body is read.
ApiResult<Json> heartbeat(const Context& context, const ModelTable&, const http::Request& request) {
  const auto nodes = find_nodes(context);
  if (!nodes) return std::unexpected(unknown_machine(nodes.error().message));
  const std::string key(key_of(request).value_or(""));
  if (const Status known = (*nodes)->check_key(request.params[0], key); !known) {
    return std::unexpected(heartbeat_error(known.error()));
  }
  const auto body = node_body(request);
  if (!body) return std::unexpected(body.error());
  auto report = node_report_from_json(*body);
  if (!report) return std::unexpected(node_error(report.error()));
  const auto wishes = (*nodes)->heartbeat(request.params[0], key, std::move(*report));
  if (!wishes) return std::unexpected(heartbeat_error(wishes.error()));
  return to_json(*wishes);
}

ApiResult<Json> show_nodes(const Context& context, const ModelTable&, const http::Request&) {
  Json data = Json::array();
  for (const NodeView& node : list_nodes(context)) data.push_back(describe(node));
  return Json{{"object", "list"}, {"data", std::move(data)}};
}

ApiResult<Json> set_draining(const Context& context, const http::Request& request, bool draining) {
  if (const auto allowed = context.check_changes(); !allowed) return std::unexpected(allowed.error());
  const auto nodes = find_nodes(context);
  if (!nodes) return std::unexpected(nodes.error());
  if (const Status status = (*nodes)->set_draining(request.params[0], draining); !status) {
    return std::unexpected(node_error(status.error()));
  }
  return Json{{"name", request.params[0]}, {"draining", draining}};
}

ApiResult<Json> drain(const Context& context, const ModelTable&, const http::Request& request) {
  return set_draining(context, request, true);
}

ApiResult<Json> resume(const Context& context, const ModelTable&, const http::Request& request) {
  return set_draining(context, request, false);
}

ApiResult<Json> remove(const Context& context, const ModelTable&, const http::Request& request) {
  if (const auto allowed = context.check_changes(); !allowed) return std::unexpected(allowed.error());
  const auto nodes = find_nodes(context);
  if (!nodes) return std::unexpected(nodes.error());
  if (const Status status = (*nodes)->remove(request.params[0]); !status) {
    return std::unexpected(node_error(status.error()));
  }
  return Json{{"name", request.params[0]}, {"removed", true}};
}

}  // namespace

std::vector<NodeView> list_nodes(const Context& context) {
  std::vector<NodeView> views;
  FleetNodes* nodes = context.fleet == nullptr ? nullptr : context.fleet->nodes();
  if (nodes != nullptr) views = nodes->list();
  if (views.empty()) {
    NodeView here;
    here.name = kThisNode;
    here.state = NodeState::kReady;
    here.local = true;
    views.push_back(std::move(here));
  }
  NodeView& here = views.front();
  here.machine = measure_machine(context.fleet == nullptr ? 0 : context.fleet->memory_budget());
  here.machine.devices = inventory_json(*devices::recent_inventory())["data"];
  return views;
}

Json describe(const NodeView& node) {
  Json labels = Json::object();
  for (const auto& [name, value] : node.labels) labels[name] = value;
  const NodeMachine& machine = node.machine;
  return {
      {"name", node.name},
      {"state", node_state_name(node.state)},
      {"local", node.local},
      {"address", node.address.empty() ? Json(nullptr) : Json(node.address)},
      {"labels", std::move(labels)},
      {"version", machine.version},
      {"memory", {{"total", machine.memory_total}, {"free", machine.memory_free}, {"budget", machine.memory_budget}}},
      {"cpu_load", machine.cpu_load},
      {"cpu_count", machine.cpu_count},
      {"engines", machine.engines},
      {"devices", machine.devices},
      {"replicas", node.replicas},
      {"last_seen_s", node.last_seen_s},
      {"message", node.message}};
}

Routes routes(const Context& context) {
  Route beat{"POST", "/v1/nodes/{name}/heartbeat", json_route(context, heartbeat)};
  beat.access = Access::kOpen;
  beat.routine = true;
  return {
      needs(people::Scope::kMonitorView, {"GET", "/v1/nodes", json_route(context, show_nodes)}),
      needs(people::Scope::kNodesJoin, {"POST", "/v1/nodes/join", json_route(context, join)}),
      std::move(beat),
      needs(people::Scope::kAdmin, {"POST", "/v1/nodes/{name}/drain", json_route(context, drain)}),
      needs(people::Scope::kAdmin, {"POST", "/v1/nodes/{name}/resume", json_route(context, resume)}),
      needs(people::Scope::kAdmin, {"DELETE", "/v1/nodes/{name}", json_route(context, remove)}),
  };
}

}  // namespace quern::nodes
