// quern nodes: the machines of a running server.
#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "base/status.h"
#include "catalog_report.h"
#include "command.h"
#include "endpoint.h"
#include "server/http/percent.h"

namespace quern::cli {
namespace {

struct NodesOptions {
  EndpointOptions endpoint;
  bool json = false;
  std::string name;
};

std::string labels_text(const Json& labels) {
  std::string text;
  for (const auto& item : labels.items()) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", item.key(), item.value().get<std::string>());
  }
  return text.empty() ? "-" : text;
}

void print_node(const Json& node) {
  const Json memory = node.value("memory", Json::object());
  const Json address = node.value("address", Json(nullptr));
  fmt::print("{:<20} {:<9} {:<32} {:>9} {:>12} {:>12} {}\n", node.value("name", ""), node.value("state", ""),
             address.is_string() ? address.get<std::string>() : "-", node.value("replicas", Json::array()).size(),
             size_text(memory.value("free", int64_t{0})), size_text(memory.value("total", int64_t{0})),
             labels_text(node.value("labels", Json::object())));
}

Status list_nodes(const NodesOptions& options) {
  QUERN_ASSIGN(const Json list, ask(options.endpoint, "GET", "/v1/nodes"));
  const Json data = list.value("data", Json::array());
  if (options.json) {
    print_json({{"data", data}});
    return {};
  }
  fmt::print("{:<20} {:<9} {:<32} {:>9} {:>12} {:>12} {}\n", "NAME", "STATE", "ADDRESS", "REPLICAS", "FREE", "MEMORY",
             "LABELS");
  for (const Json& node : data) print_node(node);
  return {};
}

Status change_node(const NodesOptions& options, const std::string& method, const std::string& action) {
  const std::string path = "/v1/nodes/" + http::percent_encode(options.name) + action;
  QUERN_ASSIGN(const Json answer, ask(options.endpoint, method, path));
  if (options.json) print_json(answer);
  return {};
}

}  // namespace

void add_nodes(CLI::App& app, ExitCode& exit) {
  const auto options = std::make_shared<NodesOptions>();
  CLI::App* command =
      app.add_subcommand("nodes", "machines that run models for a server; without a word more: list them");
  command->require_subcommand(0, 1);
  add_endpoint_options(*command, options->endpoint);
  command->add_flag("--json", options->json, "print JSON");
  const auto add = [&](const char* word, const char* help, const char* method, const char* action) {
    CLI::App* one = command->add_subcommand(word, help);
    one->fallthrough();
    one->add_option("NAME", options->name, "of the machine")->required();
    one->callback([options, one, method, action, &exit] { finish(change_node(*options, method, action), *one, exit); });
  };
  add("drain", "no new replicas there, and those it has move elsewhere", "POST", "/drain");
  add("resume", "replicas may come again", "POST", "/resume");
  add("rm", "forget a machine; what it ran starts elsewhere", "DELETE", "");
  command->callback([options, command, &exit] {
    if (command->get_subcommands().empty()) finish(list_nodes(*options), *command, exit);
  });
}

}  // namespace quern::cli
