// quern jobs: batch jobs of a running server.
#include <fmt/format.h>

#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <thread>

#include "base/status.h"
#include "catalog_report.h"
#include "command.h"
#include "endpoint.h"
#include "server/http/percent.h"

namespace quern::cli {
namespace {

struct JobsCommand {
  EndpointOptions endpoint;
  bool json = false;
  std::string id;
  // add
  std::string file, path, file_id, again, name, model, window, deadline, output;
  int32_t priority = 0, concurrency = 8, busy_concurrency = 0, retries = 2;
  // log
  int64_t from = 1;
  bool follow = false;
};

std::string job_path(const std::string& id, const std::string& rest = "") {
  return "/v1/jobs/" + http::percent_encode(id) + rest;
}

std::string time_text(const Json& job, const char* field) {
  const auto found = job.find(field);
  if (found == job.end() || !found->is_number_integer()) return "-";
  const auto seconds = static_cast<std::time_t>(found->get<int64_t>());
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%F %T", &parts);
  return text;
}

void print_job(const Json& job) {
  const Json counts = job.value("counts", Json::object());
  const std::string lines =
      fmt::format("{}+{}/{}", counts.value("done", 0), counts.value("failed", 0), counts.value("total", 0));
  fmt::print("{:<38} {:<20} {:<14} {:>4} {:>14} {:<19} {}\n", job.value("id", ""), job.value("name", "").substr(0, 20),
             job.value("state", ""), job.value("priority", 0), lines, time_text(job, "created"),
             job.value("message", ""));
}

Status show(const JobsCommand& options, const Json& job) {
  if (options.json) {
    print_json(job);
  } else {
    fmt::print("{}\n", job.value("id", ""));
  }
  return {};
}

Status list(const JobsCommand& options) {
  QUERN_ASSIGN(const Json answer, ask(options.endpoint, "GET", "/v1/jobs"));
  const Json data = answer.value("data", Json::array());
  if (options.json) {
    print_json({{"data", data}});
    return {};
  }
  fmt::print("{:<38} {:<20} {:<14} {:>4} {:>14} {:<19} {}\n", "ID", "NAME", "STATE", "PRIO", "DONE+FAILED/ALL",
             "CREATED", "MESSAGE");
  for (const Json& job : data) print_job(job);
  return {};
}

Result<std::string> upload_file(const JobsCommand& options) {
  std::ifstream in(options.file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in) return invalid_argument(fmt::format("{}: cannot be read", options.file));
  const std::string name = std::filesystem::path(options.file).filename().string();
  QUERN_ASSIGN(const Json file, upload(options.endpoint, name, text));
  return file.value("id", "");
}

Status add(const JobsCommand& options) {
  const int sources = int{!options.file.empty()} + int{!options.path.empty()} + int{!options.file_id.empty()} +
                      int{!options.again.empty()};
  if (sources != 1) return invalid_argument("one of FILE, --path, --file-id and --template must be there");
  Json body = Json::object();
  const auto set = [&](const char* field, const std::string& text) {
    if (!text.empty()) body[field] = text;
  };
  set("template", options.again);
  set("input_path", options.path);
  set("output_path", options.output);
  set("input_file_id", options.file_id);
  if (!options.file.empty()) {
    QUERN_ASSIGN(body["input_file_id"], upload_file(options));
  }
  set("name", options.name);
  set("model", options.model);
  set("window", options.window);
  set("deadline", options.deadline);
  if (options.again.empty()) {
    body["priority"] = options.priority;
    body["max_concurrency"] = options.concurrency;
    body["busy_concurrency"] = options.busy_concurrency;
    body["retries"] = options.retries;
  }
  QUERN_ASSIGN(const Json job, ask(options.endpoint, "POST", "/v1/jobs", body));
  return show(options, job);
}

Status change(const JobsCommand& options, const char* what) {
  QUERN_ASSIGN(const Json job, ask(options.endpoint, "POST", job_path(options.id, what)));
  return show(options, job);
}

Status log(const JobsCommand& options) {
  int64_t from = options.from;
  for (;;) {
    // Asked first: what was said last about a job that ended must not be missed.
    QUERN_ASSIGN(const Json job, ask(options.endpoint, "GET", job_path(options.id)));
    QUERN_ASSIGN(const Json lines,
                 ask(options.endpoint, "GET", job_path(options.id, fmt::format("/log?from={}", from))));
    const Json data = lines.value("data", Json::array());
    for (const Json& line : data) {
      if (options.json) {
        fmt::print("{}\n", dump_json(line));
      } else {
        fmt::print("{}  {}\n", time_text(line, "time"), line.value("text", ""));
      }
    }
    std::fflush(stdout);
    from = lines.value("next", from);
    const bool is_over = job.contains("ended") && !job["ended"].is_null();
    if (data.empty() && (!options.follow || is_over)) return {};
    if (data.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
}

using JobsAction = Status (*)(const JobsCommand&);

CLI::App* add_action(CLI::App& jobs, ExitCode& exit, const char* name, const char* help, JobsAction action,
                     const std::shared_ptr<JobsCommand>& options) {
  CLI::App* command = jobs.add_subcommand(name, help);
  add_endpoint_options(*command, options->endpoint);
  command->add_flag("--json", options->json, "print JSON");
  command->callback([options, action, command, &exit] { finish(action(*options), *command, exit); });
  return command;
}

void add_add(CLI::App& jobs, ExitCode& exit, const std::shared_ptr<JobsCommand>& options) {
  CLI::App* command =
      add_action(jobs, exit, "add", "lines of a file, each a request in OpenAI's batch form", add, options);
  command->add_option("FILE", options->file, "a file of this machine, which is uploaded");
  command->add_option("--path", options->path, "a file of the server, below its --jobs-folder");
  command->add_option("--file-id", options->file_id, "a file of /v1/files");
  command->add_option("--template", options->again, "as the newest job of this name was");
  command->add_option("--output", options->output, "with --path: where answers go (default: beside the input)");
  command->add_option("--name", options->name, "a name to run it again by");
  command->add_option("--model", options->model, "of lines that name none");
  command->add_option("--priority", options->priority, "the higher goes first")->capture_default_str();
  command->add_option("--window", options->window, "when it may run: 22:00-06:00, mon-fri 22:00-06:00, …");
  command->add_option("--deadline", options->deadline, "when it ends unfinished, from now: 90m, 24h, 7d");
  command->add_option("--concurrency", options->concurrency, "lines at once")->capture_default_str();
  command->add_option("--busy-concurrency", options->busy_concurrency, "lines at once while clients use the model")
      ->capture_default_str();
  command->add_option("--retries", options->retries, "of a line that the server failed")->capture_default_str();
}

}  // namespace

void add_jobs(CLI::App& app, ExitCode& exit) {
  const auto options = std::make_shared<JobsCommand>();
  CLI::App* jobs = app.add_subcommand("jobs", "batch jobs of a running server");
  jobs->require_subcommand(1);
  add_action(*jobs, exit, "list", "all jobs, the newest first", list, options);
  add_add(*jobs, exit, options);
  const auto with_id = [&](const char* name, const char* help, JobsAction action) {
    CLI::App* command = add_action(*jobs, exit, name, help, action, options);
    command->add_option("ID", options->id, "as `quern jobs list` shows it")->required();
    return command;
  };
  with_id("cancel", "end a job; what is answered stays", [](const JobsCommand& o) { return change(o, "/cancel"); });
  with_id("pause", "begin no more lines", [](const JobsCommand& o) { return change(o, "/pause"); });
  with_id("resume", "go on with a paused job", [](const JobsCommand& o) { return change(o, "/resume"); });
  CLI::App* show_log = with_id("log", "what happened to a job", log);
  show_log->add_option("--from", options->from, "number of the first line")->capture_default_str();
  show_log->add_flag("--follow,-f", options->follow, "go on with what comes, until the job ends");
}

}  // namespace quern::cli
