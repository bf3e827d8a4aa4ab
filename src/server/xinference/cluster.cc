// The cluster as Xinference's clients ask of it: a supervisor, which is this process, and workers, which are machines.
#include <algorithm>
#include <chrono>
#include <map>

#include "base/status.h"
#include "server/nodes/routes.h"
#include "server/platform/describe.h"
#include "server/platform/json_route.h"
#include "server/xinference/routes.h"

namespace quern::xinference {
namespace {

using http::asio::awaitable;
using platform::Context;
using platform::json_route;
using Clock = std::chrono::steady_clock;

// What a client may connect to: what it connected to.
std::string address_of(const http::Request& request) {
  return std::string(request.header("host").value_or("local"));
}

// Accelerators of a machine as its inventory lists them.
struct Accelerators {
  int64_t count = 0, memory_total = 0, memory_free = 0;
};

Accelerators accelerators_of(const NodeMachine& machine) {
  Accelerators found;
  const auto bytes = [](const Json& device, const char* key) {
    const auto value = device.find(key);
    return value != device.end() && value->is_number_integer() ? value->get<int64_t>() : 0;
  };
  for (const Json& device : machine.devices) {
    if (device.value("kind", "") == "cpu") continue;
    ++found.count;
    if (device.value("shares_system_memory", false)) continue;
    found.memory_total += bytes(device, "memory_total");
    found.memory_free += bytes(device, "memory_free");
  }
  return found;
}

// {"cpu_available","cpu_count","mem_used","mem_available","mem_total"} of a machine.
Json machine_json(const NodeMachine& machine) {
  return {{"cpu_available", std::max(0.0, machine.cpu_count - machine.cpu_load)},
          {"cpu_count", machine.cpu_count},
          {"mem_used", std::max<int64_t>(0, machine.memory_total - machine.memory_free)},
          {"mem_available", machine.memory_free},
          {"mem_total", machine.memory_total}};
}

Json node_json(std::string_view kind, const std::string& address, const NodeMachine& machine, bool detailed) {
  const Accelerators accelerators = accelerators_of(machine);
  Json json = {{"node_type", kind},
               {"ip_address", address},
               {"gpu_count", accelerators.count},
               {"gpu_vram_total", accelerators.memory_total}};
  if (!detailed) return json;
  const Json numbers = machine_json(machine);
  for (const auto& item : numbers.items()) json[item.key()] = item.value();
  json["gpu_utilization"] = nullptr;
  json["gpu_vram_available"] = accelerators.memory_free;
  return json;
}

ApiResult<Json> show_info(const Context& context, const ModelTable&, const http::Request& request) {
  const bool detailed = request.query_value("detailed").value_or("") == "true";
  Json list = Json::array();
  for (const NodeView& node : nodes::list_nodes(context)) {
    if (node.local) list.push_back(node_json("Supervisor", address_of(request), node.machine, detailed));
    list.push_back(node_json("Worker", node.name, node.machine, detailed));
  }
  return list;
}

ApiResult<Json> show_version(const Context&, const ModelTable&, const http::Request&) {
  return Json{{"version", "0.1.0"}, {"full-revisionid", nullptr}, {"server", "quern"}};
}

ApiResult<Json> show_devices(const Context& context, const ModelTable&, const http::Request&) {
  int64_t count = 0;
  for (const NodeView& node : nodes::list_nodes(context)) count += accelerators_of(node.machine).count;
  return Json(count);
}

ApiResult<Json> show_address(const Context&, const ModelTable&, const http::Request& request) {
  return Json(address_of(request));
}

ApiResult<Json> show_supervisor(const Context&, const ModelTable&, const http::Request& request) {
  return Json{{"supervisor_ip", address_of(request)}};
}

// Models of this process are this machine's; one of the fleet is where it has replicas.
ApiResult<Json> show_workers(const Context& context, const ModelTable& models, const http::Request&) {
  std::map<std::string, Json> by_node;
  for (const NodeView& node : nodes::list_nodes(context)) by_node[node.name] = Json::object();
  for (const ServedModel& model : models.models()) by_node["local"][model.id] = platform::describe(model);
  if (context.fleet != nullptr) {
    const Catalog catalog = Catalog::open().value_or(Catalog());
    for (const ModelView& model : context.fleet->models()) {
      for (const ReplicaView& replica : model.replicas) {
        by_node[replica.node][model.spec.uid] = platform::describe(model, catalog);
      }
    }
  }
  Json list = Json::array();
  for (auto& [node, running] : by_node) list.push_back({{"work-ip", node}, {"models", std::move(running)}});
  return list;
}

RouteFunction status_route(const Context& context) {
  const auto begin = Clock::now();
  return [context, begin](const ModelTable&, const http::Request&, http::Reply& reply) -> awaitable<void> {
    const std::function<std::vector<NodeView>()> look = [&] { return nodes::list_nodes(context); };
    const std::vector<NodeView> found = co_await offload(look);
    Json workers = Json::object();
    for (const NodeView& node : found) workers[node.name]["status"]["cpu"] = machine_json(node.machine);
    Json status;
    status["uptime"] = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - begin).count();
    status["workers"] = std::move(workers);
    co_await send_json(reply, status);
  };
}

// "launching-UID-0" is how far that replica has come. Of a request nobody here knows how far it will go.
ApiResult<Json> show_progress(const Context& context, const ModelTable&, const http::Request& request) {
  constexpr std::string_view kLaunching = "launching-";
  const std::string& id = request.params[0];
  if (context.fleet != nullptr && id.starts_with(kLaunching)) {
    for (const ModelView& model : context.fleet->models()) {
      for (const ReplicaView& replica : model.replicas) {
        if (replica.id == id.substr(kLaunching.size())) return Json{{"progress", replica.progress}};
      }
    }
  }
  return std::unexpected(
      ApiError{.message = fmt::format("{}: no launch by this id; requests for text tell no progress", id),
               .param = "request_id"});
}

ApiResult<Json> stop_cluster(const Context&, const ModelTable&, const http::Request&) {
  return std::unexpected(ApiError{.message = "this server is not stopped over HTTP: stop its process, or its service",
                                  .code = "unsupported"});
}

}  // namespace

Routes cluster_routes(const Context& context) {
  return {
      needs(people::Scope::kSignedIn, {"GET", "/status", status_route(context)}),
      needs(people::Scope::kSignedIn, {"GET", "/v1/address", json_route(context, show_address)}),
      needs(people::Scope::kMonitorView, {"GET", "/v1/cluster/info", json_route(context, show_info)}),
      needs(people::Scope::kSignedIn, {"GET", "/v1/cluster/version", json_route(context, show_version)}),
      needs(people::Scope::kMonitorView, {"GET", "/v1/cluster/devices", json_route(context, show_devices)}),
      needs(people::Scope::kMonitorView, {"GET", "/v1/workers", json_route(context, show_workers)}),
      needs(people::Scope::kSignedIn, {"GET", "/v1/supervisor", json_route(context, show_supervisor)}),
      needs(people::Scope::kAdmin, {"DELETE", "/v1/clusters", json_route(context, stop_cluster)}),
      needs(people::Scope::kModelsList,
            {"GET", "/v1/requests/{request_id}/progress", json_route(context, show_progress)}),
  };
}

}  // namespace quern::xinference
