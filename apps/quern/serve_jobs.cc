#include "serve_jobs.h"

#include <charconv>
#include <fstream>

#include "base/status.h"
#include "platform/home.h"
#include "serve_people.h"

namespace quern::cli {
namespace {

constexpr size_t kTokenMax = 1024;

Result<std::string> read_token(const std::string& path) {
  std::ifstream file(path);
  std::string token;
  if (!file || !std::getline(file, token))
    return invalid_argument(fmt::format("--xxl-job-token-file {}: has no line", path));
  while (token.ends_with('\r') || token.ends_with(' ')) token.pop_back();
  if (token.empty() || token.size() > kTokenMax) {
    return invalid_argument(fmt::format("--xxl-job-token-file {}: must have 1 to {} bytes", path, kTokenMax));
  }
  return token;
}

// "127.0.0.1:9999", "[::1]:9999".
Status read_listen(const std::string& text, xxljob::Settings& settings) {
  const size_t colon = text.rfind(':');
  const char* end_of_text = text.data() + text.size();
  const auto fault = [&] { return invalid_argument(fmt::format("--xxl-job-listen {}: must be HOST:PORT", text)); };
  if (colon == std::string::npos || colon == 0) return fault();
  const auto [end, error] = std::from_chars(text.data() + colon + 1, end_of_text, settings.port);
  if (error != std::errc() || end != end_of_text) return fault();
  settings.host = text.substr(0, colon);
  if (settings.host.starts_with('[') && settings.host.ends_with(']')) {
    settings.host = settings.host.substr(1, settings.host.size() - 2);
  }
  return {};
}

bool is_any(const std::string& host) {
  return host == "0.0.0.0" || host == "::";
}

}  // namespace

void add_jobs_options(CLI::App& command, ServeJobsOptions& options) {
  command.add_option("--jobs-folder", options.folder,
                     "jobs may read and write files below this folder (the admin's alone); without it only /v1/files");
  command
      .add_option("--xxl-job-admin", options.xxl_admins,
                  "URL of an XXL-JOB admin: be an executor of it; may be several")
      ->delimiter(',');
  command.add_option("--xxl-job-app", options.xxl_app, "the executor's AppName there");
  command.add_option("--xxl-job-token-file", options.xxl_token_file,
                     "file of the access token; needed unless the executor listens on a loopback address");
  command.add_option("--xxl-job-listen", options.xxl_listen, "HOST:PORT where the admin asks; port 0 takes a free one")
      ->capture_default_str();
  command.add_option("--xxl-job-address", options.xxl_address,
                     "URL by which the admin reaches it (default: where it listens)");
}

Status set_jobs_options(const ServeJobsOptions& options, const std::string& store_path, AppOptions& app) {
  app.jobs_path = store_path.empty()         ? (quern_home() / "jobs").string()
                  : store_path == ":memory:" ? ""
                                             : store_path + ".jobs";
  if (options.folder.empty()) return {};
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::canonical(options.folder, error);
  if (error || !std::filesystem::is_directory(folder)) {
    return invalid_argument(fmt::format("--jobs-folder {}: is no folder", options.folder));
  }
  app.jobs_files = folder.string();
  return {};
}

Result<std::unique_ptr<xxljob::Executor>> start_xxl_executor(const ServeJobsOptions& options, App& app, Fleet* fleet,
                                                             const Log& log) {
  if (options.xxl_admins.empty()) return nullptr;
  xxljob::Settings settings{.admins = options.xxl_admins, .app = options.xxl_app, .address = options.xxl_address};
  for (std::string& admin : settings.admins) {
    while (admin.ends_with('/')) admin.pop_back();
    if (!admin.starts_with("http://") && !admin.starts_with("https://")) {
      return invalid_argument(fmt::format("--xxl-job-admin {}: must be an http or https URL", admin));
    }
  }
  if (settings.app.size() < 4 || settings.app.size() > 64) {
    return invalid_argument("--xxl-job-app: must have 4 to 64 characters, as the admin wants it");
  }
  QUERN_TRY(read_listen(options.xxl_listen, settings));
  http::ServerOptions where;
  where.host = settings.host;
  if (!options.xxl_token_file.empty()) {
    QUERN_ASSIGN(settings.token, read_token(options.xxl_token_file));
  } else if (!is_local(where)) {
    return invalid_argument(fmt::format("--xxl-job-token-file: is needed on {}, where others can ask", settings.host));
  }
  if (is_any(settings.host) && settings.address.empty()) {
    return invalid_argument("--xxl-job-address: is needed when the executor listens on every address");
  }
  settings.runs = app.jobs_folder() / "xxl.db";
  auto executor = xxljob::Executor::start(std::move(settings), app.jobs(), fleet, log);
  if (!executor) return std::unexpected(executor.error());
  log.write(LogLevel::kNotice, fmt::format("xxl-job executor {} at {}", options.xxl_app, (*executor)->address()));
  return executor;
}

}  // namespace quern::cli
