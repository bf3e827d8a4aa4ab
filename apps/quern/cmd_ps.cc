// quern ps: the models of a running server.
#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "base/status.h"
#include "catalog_report.h"
#include "command.h"
#include "endpoint.h"

namespace quern::cli {
namespace {

struct PsOptions {
  EndpointOptions endpoint;
  bool json = false;
};

std::string text_of(const Json& model, const char* field) {
  const auto value = model.find(field);
  return value != model.end() && value->is_string() ? value->get<std::string>() : "-";
}

void print_model(const Json& model) {
  const Json replicas = model.value("replicas", Json::array());
  int64_t memory = 0, ready = 0;
  std::string pids;
  for (const Json& replica : replicas) {
    memory += replica.value("memory", int64_t{0});
    ready += replica.value("state", "") == "ready" ? 1 : 0;
    if (const auto pid = replica.find("pid"); pid != replica.end() && pid->is_number()) pids += " " + pid->dump();
  }
  const std::string status = model.value("idle", false) ? "IDLE" : text_of(model, "status");
  const std::string counts = replicas.empty() ? "-" : fmt::format("{}/{}", ready, model.value("replica", 1));
  fmt::print("{:<32} {:<10} {:<10} {:<12} {:<8} {:>10} {}\n", text_of(model, "id"), text_of(model, "model_type"),
             text_of(model, "model_engine"), status, counts, memory > 0 ? size_text(memory) : "-",
             pids.empty() ? "-" : pids.substr(1));
}

Status ps(const PsOptions& options) {
  QUERN_ASSIGN(const Json list, ask(options.endpoint, "GET", "/v1/models"));
  const Json data = list.value("data", Json::array());
  if (options.json) {
    print_json({{"data", data}});
    return {};
  }
  fmt::print("{:<32} {:<10} {:<10} {:<12} {:<8} {:>10} {}\n", "UID", "TYPE", "ENGINE", "STATUS", "READY", "MEMORY",
             "PID");
  for (const Json& model : data) print_model(model);
  return {};
}

}  // namespace

void add_ps(CLI::App& app, ExitCode& exit) {
  const auto options = std::make_shared<PsOptions>();
  CLI::App* command = app.add_subcommand("ps", "models that a running server serves");
  add_endpoint_options(*command, options->endpoint);
  command->add_flag("--json", options->json, "print JSON");
  command->callback([options, command, &exit] { finish(ps(*options), *command, exit); });
}

}  // namespace quern::cli
