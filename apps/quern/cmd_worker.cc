// quern worker: this machine runs models for the server of another one, until SIGINT or SIGTERM.
#include <fcntl.h>
#include <netdb.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>

#include "base/status.h"
#include "command.h"
#include "platform/fleet/node_agent.h"
#include "platform/fleet/node_certificate.h"
#include "platform/home.h"
#include "server/app.h"
#include "server/http/server.h"

namespace quern::cli {
namespace {

struct WorkerOptions {
  std::string server, token, ca_file;
  std::string name, listen = "0.0.0.0:9998", address;
  std::vector<std::string> labels;
  int64_t memory_bytes = 0;
  bool tls = false;
  std::string tls_cert, tls_key;
  bool stop_workers = false;
  std::string log_format = "text";
};

struct HostPort {
  std::string host;
  uint16_t port = 0;
};

// "10.0.0.2:9998", "[fd00::2]:9998", ":9998".
Result<HostPort> parse_host_port(const std::string& text, const char* option) {
  const size_t colon = text.rfind(':');
  const std::string port = colon == std::string::npos ? "" : text.substr(colon + 1);
  HostPort parsed{.host = text.substr(0, colon)};
  if (parsed.host.starts_with('[') && parsed.host.ends_with(']'))
    parsed.host = parsed.host.substr(1, parsed.host.size() - 2);
  const bool digits = !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == std::string::npos;
  if (!digits || std::stoi(port) > 65535) return invalid_argument(fmt::format("{}: {} is no host:port", option, text));
  parsed.port = static_cast<uint16_t>(std::stoi(port));
  return parsed;
}

// The address from which this machine would speak to `host`; nothing is sent.
Result<std::string> own_address_towards(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found); error != 0) {
    return make_error(ErrorCode::kUnavailable, fmt::format("--join: {}: {}", host, ::gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
  const int fd = ::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  auto* generic = reinterpret_cast<sockaddr*>(&own);
  const bool known =
      fd >= 0 && ::connect(fd, found->ai_addr, found->ai_addrlen) == 0 && ::getsockname(fd, generic, &size) == 0;
  if (fd >= 0) ::close(fd);
  char text[NI_MAXHOST];
  if (!known || ::getnameinfo(generic, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) {
    return make_error(ErrorCode::kUnavailable, "--address: this machine's own cannot be found out: name it");
  }
  return std::string(text);
}

// "host" and "port" of "http://host:port/…".
Result<std::pair<std::string, std::string>> host_of_url(const std::string& url) {
  const bool https = url.starts_with("https://");
  if (!https && !url.starts_with("http://")) return invalid_argument(fmt::format("--join: {} is no URL", url));
  std::string rest = url.substr(url.find("://") + 3);
  rest = rest.substr(0, rest.find('/'));
  const bool brackets = rest.starts_with('[');
  const size_t end = brackets ? rest.find(']') : rest.find(':');
  std::string host = brackets ? rest.substr(1, end - 1) : rest.substr(0, end);
  const size_t colon = rest.find(':', brackets ? end : 0);
  if (host.empty()) return invalid_argument(fmt::format("--join: {} has no host", url));
  return std::pair(host, colon == std::string::npos ? std::string(https ? "443" : "80") : rest.substr(colon + 1));
}

std::string host_name() {
  char text[256] = "";
  ::gethostname(text, sizeof text - 1);
  std::string name;
  for (const char* c = text; *c != 0 && name.size() < 64; ++c) {
    const auto lower = static_cast<char>(std::tolower(static_cast<unsigned char>(*c)));
    const bool plain = std::isalnum(static_cast<unsigned char>(lower)) != 0 || lower == '.' || lower == '-';
    name += plain ? lower : '-';
  }
  return name;
}

// The same as long as the folder lasts: the server knows the machine again by it.
Result<std::string> own_key(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "key";
  std::string key;
  if (std::ifstream known(file); known >> key && key.size() >= 32) return key;
  unsigned char noise[24];
  if (::getrandom(noise, sizeof noise, 0) != static_cast<ssize_t>(sizeof noise)) std::abort();  // since Linux 3.17
  key.clear();
  for (const unsigned char byte : noise) key += fmt::format("{:02x}", byte);
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const bool written = fd >= 0 && ::write(fd, key.data(), key.size()) == static_cast<ssize_t>(key.size());
  if (fd >= 0) ::close(fd);
  if (!written) return io_error(fmt::format("{}: cannot write", file.string()));
  return key;
}

Result<http::ServerOptions> http_options(const WorkerOptions& options, const std::filesystem::path& folder) {
  http::ServerOptions http;
  QUERN_ASSIGN(const HostPort listen, parse_host_port(options.listen, "--listen"));
  http.host = listen.host.empty() ? "0.0.0.0" : listen.host;
  http.port = listen.port;
  if (options.tls_cert.empty() != options.tls_key.empty()) {
    return invalid_argument("--tls-cert: goes with --tls-key, and it with that");
  }
  http.ssl_certfile = options.tls_cert;
  http.ssl_keyfile = options.tls_key;
  if (!options.tls || !options.tls_cert.empty()) return http;
  QUERN_ASSIGN(const NodeCertificate own, own_certificate(folder));
  http.ssl_certfile = own.cert_file.string();
  http.ssl_keyfile = own.key_file.string();
  return http;
}

// How the server shall reach this machine.
Result<std::string> reached_at(const WorkerOptions& options, const http::ServerOptions& http, uint16_t port) {
  std::string host_port = options.address;
  if (host_port.empty()) {
    std::string host = http.host;
    if (host == "0.0.0.0" || host == "::") {
      QUERN_ASSIGN(const auto server, host_of_url(options.server));
      QUERN_ASSIGN(host, own_address_towards(server.first, server.second));
    }
    host_port =
        host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
  } else {
    QUERN_TRY(parse_host_port(host_port, "--address"));
  }
  if (http.ssl_certfile.empty()) return "http://" + host_port;
  QUERN_ASSIGN(const std::string pin, public_key_pin(http.ssl_certfile));
  return fmt::format("https://{}#{}", host_port, pin);
}

Result<NodeJoin> node_join(const WorkerOptions& options) {
  NodeJoin join;
  join.name = options.name.empty() ? host_name() : options.name;
  if (!is_node_name(join.name)) {
    return invalid_argument(fmt::format("--name: '{}' must be 1 to 64 of a-z 0-9 . - and not 'local'", join.name));
  }
  for (const std::string& text : options.labels) {
    QUERN_ASSIGN(auto label, parse_node_label(text));
    join.labels[std::move(label.first)] = std::move(label.second);
  }
  return join;
}

FleetOptions fleet_options(const WorkerOptions& options, const std::filesystem::path& folder, const Log& log) {
  FleetOptions fleet;
  std::error_code error;
  fleet.folder = folder;
  fleet.program = std::filesystem::read_symlink("/proc/self/exe", error);
  fleet.memory_budget_bytes = options.memory_bytes;
  fleet.stop_workers_at_end = options.stop_workers;
  fleet.first_look_max = {};  // the thread that launches also tells the server that we are here
  fleet.served_name = uid_of_node_replica;
  fleet.log = [&log](const std::string& note) { log.write(LogLevel::kNotice, note); };
  return fleet;
}

Status work(const WorkerOptions& options) {
  // Blocked before any thread starts, so that all inherit it and sigwait() gets the signal.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);

  const std::string token = options.token.empty() ? environment("QUERN_WORKER_TOKEN").value_or("") : options.token;
  if (token.empty()) return invalid_argument("--token: the server wants one; QUERN_WORKER_TOKEN says it too");
  QUERN_TRY(host_of_url(options.server));
  QUERN_ASSIGN(NodeJoin join, node_join(options));
  const std::filesystem::path folder = quern_home() / "worker";
  const Log log(options.log_format == "json" ? LogFormat::kJson : LogFormat::kText, LogLevel::kWarning);
  QUERN_ASSIGN(const std::unique_ptr<Fleet> fleet, Fleet::open(fleet_options(options, folder, log)));
  QUERN_ASSIGN(join.key, own_key(folder));
  QUERN_ASSIGN(const http::ServerOptions http, http_options(options, folder));

  AppOptions app_settings;
  QUERN_TRY(app_settings.keys.add(join.key));
  app_settings.store_path = ":memory:";
  app_settings.runs_jobs = false;
  // To who has the key: the server.
  app_settings.management_allowed = true;
  app_settings.adapters.updates_allowed = true;
  app_settings.fleet = fleet.get();
  Metrics metrics("vllm:");
  const ModelTable models;
  QUERN_ASSIGN(const std::unique_ptr<App> app, App::create(models, metrics, log, std::move(app_settings)));
  QUERN_ASSIGN(const std::unique_ptr<http::Server> server, http::Server::start(http, app->handler()));
  const auto end = [&] {
    server->stop();
    server->join();
    app->stop();
  };
  auto address = reached_at(options, http, server->port());
  if (!address) return end(), std::unexpected(address.error());
  join.address = std::move(*address);
  app->set_ready();
  log.write(LogLevel::kNotice,
            fmt::format("listening on {}, reached at {}", server->address(), address_without_pin(join.address)));
  auto agent =
      NodeAgent::start(*fleet, {.server = options.server,
                                .token = token,
                                .ca_file = options.ca_file,
                                .join = std::move(join),
                                .log = [&log](const std::string& text) { log.write(LogLevel::kNotice, text); }});
  if (!agent) return end(), std::unexpected(prefixed(agent.error(), "--join"));
  int received = 0;
  sigwait(&signals, &received);
  log.write(LogLevel::kNotice, "stopping");
  agent->reset();
  end();
  return {};
}

}  // namespace

void add_worker(CLI::App& app, ExitCode& exit) {
  const auto options = std::make_shared<WorkerOptions>();
  CLI::App* command = app.add_subcommand("worker", "run models on this machine for a server on another one");
  command->add_option("--join", options->server, "address of the server: http:// or https://")->required();
  command->add_option("--token", options->token,
                      "the server's --worker-token, or a key with the scope nodes:join; else "
                      "QUERN_WORKER_TOKEN, which no list of processes shows");
  command->add_option("--ca", options->ca_file, "PEM of authorities trusted for the server (default: the system's)");
  command->add_option("--name", options->name, "what this machine is called there (default: its host name)");
  command->add_option("--label", options->labels, "NAME=VALUE, by which launches choose machines; any number");
  command->add_option("--listen", options->listen, "address for the server's requests; port 0 takes a free one")
      ->capture_default_str();
  command->add_option("--address", options->address,
                      "HOST:PORT by which the server reaches this machine (default: as it is seen from here)");
  command
      ->add_option("--memory", options->memory_bytes,
                   "memory for models on this machine, as 8GB; 0: what is free, less a reserve")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  command->add_flag("--tls", options->tls,
                    "answer by TLS; without --tls-cert by a key of its own making, which the "
                    "server is told when this machine joins");
  command->add_option("--tls-cert", options->tls_cert, "certificate chain in PEM: answer by TLS with it");
  command->add_option("--tls-key", options->tls_key, "its private key in PEM");
  command->add_flag("--stop-workers", options->stop_workers,
                    "models end with this command; without it they stay and the next one takes them over");
  command->add_option("--log-format", options->log_format, "text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  command->callback([options, command, &exit] { finish(work(*options), *command, exit); });
}

}  // namespace quern::cli
