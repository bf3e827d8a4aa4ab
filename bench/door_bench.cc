// What the front door costs: a dummy worker, the door, and a load generator, each a process of its own.
//
//   door_bench [--rounds 5]          both figures: added latency at a fixed rate, small requests a second at most
//   door_bench --worker SOCKET       the dummy worker alone: answers every request with the same small JSON
//   door_bench --door SOCKET         a server with the door in front of a worker at SOCKET; prints its port
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "fmt/format.h"
#include "server/app.h"
#include "server/door/static_fleet.h"
#include "server/http/server.h"

namespace quern {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kAnswerBody =
    R"({"id":"chatcmpl-0","object":"chat.completion","created":0,"model":"dummy","choices":[{"index":0,"message":)"
    R"({"role":"assistant","content":"Hello."},"finish_reason":"stop"}],"usage":{"prompt_tokens":8,"completion_tokens":2,)"
    R"("total_tokens":10}})";
constexpr std::string_view kRequestBody =
    R"({"model":"dummy","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Say hello."}],)"
    R"("temperature":0,"max_tokens":2})";

// Length of the first whole message in `text`, 0 when it is not whole yet. Bodies have a Content-Length.
size_t message_size(std::string_view text) {
  const size_t head = text.find("\r\n\r\n");
  if (head == std::string_view::npos) return 0;
  constexpr std::string_view kName = "Content-Length: ";
  const size_t at = text.substr(0, head).find(kName);
  const size_t body = at == std::string_view::npos ? 0 : std::strtoul(text.data() + at + kName.size(), nullptr, 10);
  return text.size() >= head + 4 + body ? head + 4 + body : 0;
}

void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

int connect_to_unix(const std::string& path) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) fail("connect");
  return fd;
}

int connect_to_port(uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) fail("connect");
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

// One thread, epoll: as little as a worker can cost.
void run_worker(const std::string& path) {
  const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  if (::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) fail("bind");
  ::listen(listener, 1024);
  const int poller = ::epoll_create1(0);
  const auto watch = [&](int fd) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
    ::epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event);
  };
  watch(listener);
  const std::string answer =
      fmt::format("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
                  kAnswerBody.size(), kAnswerBody);
  std::unordered_map<int, std::string> seen;
  for (;;) {
    epoll_event events[64];
    const int count = ::epoll_wait(poller, events, 64, -1);
    for (int i = 0; i < count; ++i) {
      const int fd = events[i].data.fd;
      if (fd == listener) {
        const int client = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK);
        if (client >= 0) watch(client);
        continue;
      }
      char bytes[16384];
      const ssize_t n = ::recv(fd, bytes, sizeof bytes, 0);
      if (n <= 0) {
        seen.erase(fd);
        ::close(fd);
        continue;
      }
      std::string& text = seen[fd];
      text.append(bytes, static_cast<size_t>(n));
      while (const size_t size = message_size(text)) {
        text.erase(0, size);
        if (::send(fd, answer.data(), answer.size(), MSG_NOSIGNAL) < 0) break;
      }
    }
  }
}

// The server as `quern serve` builds it, with a fleet of one worker that is there.
void run_door(const std::string& path, int32_t threads, int port_pipe) {
  door::StaticFleet fleet;
  fleet.models_by_uid["dummy"].replicas = {{"dummy-0", "unix:" + path}};
  const ModelTable models;
  Metrics metrics;
  const Log log(LogFormat::kText, LogLevel::kWarning);
  AppOptions options;
  options.store_path = ":memory:";
  options.fleet = &fleet;
  auto app = App::create(models, metrics, log, std::move(options));
  if (!app) std::exit(1);
  http::ServerOptions http;
  http.port = 0;
  http.threads = threads;
  auto server = http::Server::start(http, (*app)->handler());
  if (!server) std::exit(1);
  (*app)->set_ready();
  const uint16_t port = (*server)->port();
  if (port_pipe >= 0) {
    if (::write(port_pipe, &port, sizeof port) != sizeof port) std::exit(1);
  } else {
    fmt::print("{}\n", port);
    std::fflush(stdout);
  }
  (*server)->join();
}

std::string request_text() {
  return fmt::format(
      "POST /v1/chat/completions HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: "
      "{}\r\n\r\n{}",
      kRequestBody.size(), kRequestBody);
}

// Sends one request and reads its answer whole; false when it is no 200.
bool exchange(int fd, const std::string& request) {
  if (::send(fd, request.data(), request.size(), MSG_NOSIGNAL) < 0) return false;
  std::string text;
  char bytes[16384];
  while (message_size(text) == 0) {
    const ssize_t n = ::recv(fd, bytes, sizeof bytes, 0);
    if (n <= 0) return false;
    text.append(bytes, static_cast<size_t>(n));
  }
  return text.starts_with("HTTP/1.1 200 ");
}

// Requests at fixed times, over one connection each of a few; latency counts from the time a request was due.
std::vector<double> latencies_ms(const std::vector<int>& sockets, double rate, int count) {
  const std::string request = request_text();
  std::vector<std::vector<double>> parts(sockets.size());
  std::vector<std::thread> threads;
  const auto begin = Clock::now() + std::chrono::milliseconds(100);
  for (size_t s = 0; s < sockets.size(); ++s) {
    threads.emplace_back([&, s] {
      for (int i = static_cast<int>(s); i < count; i += static_cast<int>(sockets.size())) {
        const auto due = begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(i / rate));
        std::this_thread::sleep_until(due);
        const auto sent = Clock::now();  // what the timer of this machine adds is not the door's
        if (!exchange(sockets[s], request)) fail("exchange");
        parts[s].push_back(std::chrono::duration<double, std::milli>(Clock::now() - sent).count());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<double> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  std::ranges::sort(all);
  return all;
}

double quantile(const std::vector<double>& sorted, double q) {
  return sorted[std::min(sorted.size() - 1, static_cast<size_t>(std::floor(q * static_cast<double>(sorted.size()))))];
}

// Requests a second with `connections` that each have one in flight.
double throughput(uint16_t port, int connections, double seconds) {
  const std::string request = request_text();
  const int poller = ::epoll_create1(0);
  std::unordered_map<int, std::string> seen;
  for (int i = 0; i < connections; ++i) {
    const int fd = connect_to_port(port);
    epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
    ::epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event);
    seen[fd];
    if (::send(fd, request.data(), request.size(), MSG_NOSIGNAL) < 0) fail("send");
  }
  int64_t done = 0;
  const auto begin = Clock::now();
  while (std::chrono::duration<double>(Clock::now() - begin).count() < seconds) {
    epoll_event events[64];
    const int count = ::epoll_wait(poller, events, 64, 1000);
    for (int i = 0; i < count; ++i) {
      const int fd = events[i].data.fd;
      char bytes[16384];
      const ssize_t n = ::recv(fd, bytes, sizeof bytes, 0);
      if (n <= 0) fail("recv");
      std::string& text = seen[fd];
      text.append(bytes, static_cast<size_t>(n));
      if (message_size(text) == 0) continue;
      if (!text.starts_with("HTTP/1.1 200 ")) fail("status");
      text.clear();
      ++done;
      if (::send(fd, request.data(), request.size(), MSG_NOSIGNAL) < 0) fail("send");
    }
  }
  const double rate = static_cast<double>(done) / std::chrono::duration<double>(Clock::now() - begin).count();
  for (const auto& [fd, text] : seen) ::close(fd);
  ::close(poller);
  return rate;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// User and system time that a process has had so far.
double cpu_seconds(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string text;
  std::getline(file, text);
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  double user = 0, system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

// Without and with the door by turns: what the machine does beside it comes to both.
void measure_latency(const std::string& path, uint16_t port, double rate, int rounds) {
  constexpr int kRequestsOfTurn = 300;
  // Fresh connections for each turn: a machine that stands still for a minute has idle ones closed.
  const auto turn = [&](bool is_direct, int count) {
    std::vector<int> sockets;
    for (int i = 0; i < 4; ++i) sockets.push_back(is_direct ? connect_to_unix(path) : connect_to_port(port));
    auto latencies = latencies_ms(sockets, rate, count);
    for (const int fd : sockets) ::close(fd);
    return latencies;
  };
  turn(true, 50);
  turn(false, 50);
  constexpr double kQuantiles[] = {0.5, 0.99};
  std::vector<double> without[2], with[2], added[2];
  for (int round = 0; round < rounds; ++round) {
    const auto a = turn(true, kRequestsOfTurn);
    const auto b = turn(false, kRequestsOfTurn);
    for (size_t q = 0; q < 2; ++q) {
      without[q].push_back(quantile(a, kQuantiles[q]));
      with[q].push_back(quantile(b, kQuantiles[q]));
      added[q].push_back(with[q].back() - without[q].back());
    }
  }
  for (size_t q = 0; q < 2; ++q) {
    fmt::print(
        "{:.0f} requests/s, p{:.0f}, medians of {} turns: worker {:.3f} ms, through the door {:.3f} ms, added {:.3f} "
        "ms\n",
        rate, 100 * kQuantiles[q], rounds, median(without[q]), median(with[q]), median(added[q]));
  }
}

void measure_throughput(pid_t door, uint16_t port, int rounds) {
  constexpr double kSeconds = 3;
  for (const int connections : {1, 16, 64}) {
    std::vector<double> rates, costs;
    for (int round = 0; round < rounds; ++round) {
      const double before = cpu_seconds(door);
      rates.push_back(throughput(port, connections, kSeconds));
      costs.push_back(1e6 * (cpu_seconds(door) - before) / (rates.back() * kSeconds));
    }
    fmt::print("{} connections: {:.0f} requests/s (best {:.0f}), {:.0f} us of processor time of the door each\n",
               connections, median(rates), std::ranges::max(rates), median(costs));
  }
}

int measure(double rate, int rounds) {
  char folder[] = "/tmp/quern_door_bench_XXXXXX";
  if (::mkdtemp(folder) == nullptr) fail("mkdtemp");
  const std::string path = std::string(folder) + "/worker.sock";
  const pid_t worker = ::fork();
  if (worker == 0) run_worker(path);
  int port_pipe[2];
  if (::pipe(port_pipe) != 0) fail("pipe");
  const pid_t door = ::fork();
  if (door == 0) {
    run_door(path, 2, port_pipe[1]);
    std::exit(0);
  }
  uint16_t port = 0;
  if (::read(port_pipe[0], &port, sizeof port) != sizeof port) fail("the door did not start");
  measure_latency(path, port, rate, rounds);
  measure_throughput(door, port, rounds);
  for (const pid_t child : {door, worker}) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  ::unlink(path.c_str());
  ::rmdir(folder);
  return 0;
}

}  // namespace
}  // namespace quern

int main(int argc, char** argv) {
  ::signal(SIGPIPE, SIG_IGN);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() == 2 && arguments[0] == "--worker") quern::run_worker(arguments[1]);
  if (arguments.size() == 2 && arguments[0] == "--door") {
    quern::run_door(arguments[1], 2, -1);
    return 0;
  }
  const bool has_rounds = arguments.size() == 2 && arguments[0] == "--rounds";
  const int rounds = has_rounds ? std::atoi(arguments[1].c_str()) : 5;
  if ((!arguments.empty() && !has_rounds) || rounds < 1) {
    std::fprintf(stderr, "door_bench [--rounds N | --worker SOCKET | --door SOCKET]\n");
    return 2;
  }
  return quern::measure(100, rounds);
}
