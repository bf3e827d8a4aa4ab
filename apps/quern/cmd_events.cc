// quern events UID and quern logs UID: what happened to a model, and what its workers wrote.
#include <fmt/format.h>

#include <cstdio>
#include <ctime>
#include <memory>

#include "base/status.h"
#include "catalog_report.h"
#include "command.h"
#include "endpoint.h"
#include "server/http/percent.h"

namespace quern::cli {
namespace {

struct EventsOptions {
  EndpointOptions endpoint;
  std::string uid;
  std::string replica;
  int64_t bytes = 65536;
  bool follow = false;
  bool json = false;
};

void print_event(const Json& event) {
  const std::time_t seconds = event.value("time_ms", int64_t{0}) / 1000;
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  char time[32];
  std::strftime(time, sizeof time, "%F %T", &parts);
  const Json replica = event.value("replica", Json());
  fmt::print("{}  {:<12} {:<16} {}\n", time, event.value("kind", ""),
             replica.is_string() ? replica.get<std::string>() : "-", event.value("message", ""));
}

// Server-sent events, piece by piece: a line that begins with "data: " is one event.
class EventLines {
 public:
  explicit EventLines(bool json) : json_(json) {}
  bool take(std::string_view piece) {
    rest_ += piece;
    for (size_t end = rest_.find('\n'); end != std::string::npos; end = rest_.find('\n')) {
      const std::string line = rest_.substr(0, end);
      rest_.erase(0, end + 1);
      if (!line.starts_with("data: ")) continue;
      const auto event = parse_json(std::string_view(line).substr(6), "event");
      if (!event || !event->is_object()) continue;
      if (json_) {
        fmt::print("{}\n", dump_json(*event));
      } else {
        print_event(*event);
      }
    }
    return std::fflush(stdout) == 0;
  }

 private:
  const bool json_;
  std::string rest_;
};

Status events(const EventsOptions& options) {
  const std::string path = model_path(options.uid, "/events");
  if (options.follow) {
    EventLines lines(options.json);
    return follow(options.endpoint, path, "text/event-stream",
                  [&](std::string_view piece) { return lines.take(piece); });
  }
  QUERN_ASSIGN(const Json list, ask(options.endpoint, "GET", path));
  if (options.json) {
    print_json({{"data", list}});
    return {};
  }
  for (const Json& event : list) print_event(event);
  return {};
}

Status logs(const EventsOptions& options) {
  std::string path = model_path(options.uid, fmt::format("/logs?bytes={}", options.bytes));
  if (!options.replica.empty()) path += "&replica=" + http::percent_encode(options.replica);
  if (options.follow) path += "&follow=true";
  std::string text;
  const HttpSink sink = [&](std::string_view piece) {
    if (options.json) {
      text += piece;
      return true;
    }
    std::fwrite(piece.data(), 1, piece.size(), stdout);
    return std::fflush(stdout) == 0;
  };
  QUERN_TRY(follow(options.endpoint, path, "text/plain", sink));
  if (options.json) print_json({{"uid", options.uid}, {"text", text}});
  return {};
}

CLI::App* add(CLI::App& app, ExitCode& exit, const char* name, const char* help, Status (*run)(const EventsOptions&),
              const std::shared_ptr<EventsOptions>& options) {
  CLI::App* command = app.add_subcommand(name, help);
  command->add_option("UID", options->uid, "as `quern ps` shows it")->required();
  command->add_flag("--follow,-f", options->follow, "go on with what comes, until the model ends");
  add_endpoint_options(*command, options->endpoint);
  command->add_flag("--json", options->json, "print JSON");
  command->callback([options, run, command, &exit] { finish(run(*options), *command, exit); });
  return command;
}

}  // namespace

void add_events(CLI::App& app, ExitCode& exit) {
  add(app, exit, "events", "what happened to a model: loads, crashes, restarts", events,
      std::make_shared<EventsOptions>());
}

void add_logs(CLI::App& app, ExitCode& exit) {
  const auto options = std::make_shared<EventsOptions>();
  CLI::App* command = add(app, exit, "logs", "what a model's workers wrote", logs, options);
  command->add_option("--replica", options->replica, "which one: its id or number (default: the first)");
  command->add_option("--bytes", options->bytes, "how much of the end")
      ->check(CLI::Range(0, 4 << 20))
      ->capture_default_str();
}

}  // namespace quern::cli
