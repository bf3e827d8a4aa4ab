// The cluster as Xinference's clients ask of it: a supervisor, which is this process, and workers, which are machines.
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <set>
#include <thread>

#include "base/status.h"
#include "engine/kv_sizing.h"
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

std::set<std::string> nodes_of(const Context& context) {
  std::set<std::string> nodes = {"local"};
  if (context.fleet == nullptr) return nodes;
  for (const ModelView& model : context.fleet->models()) {
    for (const ReplicaView& replica : model.replicas) {
      if (!replica.node.empty()) nodes.insert(replica.node);
    }
  }
  return nodes;
}

// NVIDIA's driver makes a node for each device; others are not counted.
int32_t num_gpus() {
  int32_t count = 0;
  std::error_code error;
  while (std::filesystem::exists(fmt::format("/dev/nvidia{}", count), error)) ++count;
  return count;
}

int64_t memory_total() {
  return static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
}

// {"cpu_available","cpu_count","mem_used","mem_available","mem_total"} of this machine.
Json machine_json() {
  const auto processors = static_cast<double>(std::thread::hardware_concurrency());
  double load = 0;
  if (::getloadavg(&load, 1) != 1) load = 0;
  const int64_t total = memory_total(), available = std::min(available_memory_bytes(), total);
  return {{"cpu_available", std::max(0.0, processors - load)},
          {"cpu_count", static_cast<int64_t>(processors)},
          {"mem_used", total - available},
          {"mem_available", available},
          {"mem_total", total}};
}

Json node_json(std::string_view kind, const std::string& address, bool is_local) {
  Json json = {{"node_type", kind}, {"ip_address", address}};
  json["gpu_count"] = is_local ? Json(num_gpus()) : Json(nullptr);
  json["gpu_vram_total"] = 0;
  return json;
}

ApiResult<Json> show_info(const Context& context, const ModelTable&, const http::Request& request) {
  const bool detailed = request.query_value("detailed").value_or("") == "true";
  Json list = Json::array({node_json("Supervisor", address_of(request), true)});
  for (const std::string& node : nodes_of(context)) list.push_back(node_json("Worker", node, node == "local"));
  if (!detailed) return list;
  for (Json& entry : list) {
    const bool is_local = entry["node_type"] == "Supervisor" || entry["ip_address"] == "local";
    const Json machine = machine_json();
    for (const auto& item : machine.items()) entry[item.key()] = is_local ? item.value() : Json(nullptr);
    entry["gpu_utilization"] = nullptr;
    entry["gpu_vram_available"] = 0;
  }
  return list;
}

ApiResult<Json> show_version(const Context&, const ModelTable&, const http::Request&) {
  return Json{{"version", "0.1.0"}, {"full-revisionid", nullptr}, {"server", "quern"}};
}

ApiResult<Json> show_devices(const Context&, const ModelTable&, const http::Request&) {
  return Json(num_gpus());
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
  for (const std::string& node : nodes_of(context)) by_node[node] = Json::object();
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
    Json workers = Json::object();
    for (const std::string& node : nodes_of(context)) workers[node] = Json::object();
    workers["local"]["status"]["cpu"] = machine_json();
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
