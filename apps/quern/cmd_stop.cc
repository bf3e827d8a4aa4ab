// quern stop UID: ends models of a running server.
#include <cstdio>
#include <memory>

#include "base/status.h"
#include "catalog_report.h"
#include "command.h"
#include "endpoint.h"

namespace quern::cli {
namespace {

struct StopOptions {
  EndpointOptions endpoint;
  std::vector<std::string> uids;
  bool all = false;
  bool json = false;
};

// Those that were launched; what the server itself was started with ends with it.
Result<std::vector<std::string>> launched(const EndpointOptions& endpoint) {
  QUERN_ASSIGN(const Json list, ask(endpoint, "GET", "/v1/models"));
  std::vector<std::string> uids;
  for (const Json& model : list.value("data", Json::array())) {
    if (model.contains("launch")) uids.push_back(model.value("id", ""));
  }
  return uids;
}

Status stop(const StopOptions& options) {
  std::vector<std::string> uids = options.uids;
  if (options.all) {
    QUERN_ASSIGN(uids, launched(options.endpoint));
  } else if (uids.empty()) {
    return invalid_argument("UID is missing; --all stops all");
  }
  // All are looked up first: a name that is wrong stops nothing.
  for (const std::string& uid : uids) QUERN_TRY(ask(options.endpoint, "GET", model_path(uid)));
  for (const std::string& uid : uids) {
    QUERN_TRY(ask(options.endpoint, "DELETE", model_path(uid)));
    if (!options.json) std::printf("stopped %s\n", uid.c_str());
  }
  if (options.json) print_json({{"stopped", uids}});
  return {};
}

}  // namespace

void add_stop(CLI::App& app, ExitCode& exit) {
  const auto options = std::make_shared<StopOptions>();
  CLI::App* command = app.add_subcommand("stop", "end models that were launched; their files stay");
  CLI::Option* uids = command->add_option("UID", options->uids, "names as `quern ps` shows them");
  command->add_flag("--all", options->all, "all that were launched")->excludes(uids);
  add_endpoint_options(*command, options->endpoint);
  command->add_flag("--json", options->json, "print JSON");
  command->callback([options, command, &exit] { finish(stop(*options), *command, exit); });
}

}  // namespace quern::cli
