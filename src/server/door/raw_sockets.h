// Both ends of an HTTP connection written by hand, for tests of what no well-behaved server or client does. Blocking,
// on loopback sockets; a read that takes 20 s fails.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <list>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

namespace quern::door {

class RawSocket {
 public:
  // A read also fails once `give_up` is true; it may be null.
  explicit RawSocket(int fd, const std::atomic<bool>* give_up = nullptr) : fd_(fd), give_up_(give_up) {
    const timeval limit{.tv_sec = 20, .tv_usec = 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  }
  static RawSocket to_port(uint16_t port) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    return RawSocket(fd);
  }
  RawSocket(RawSocket&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), give_up_(other.give_up_), seen_(std::move(other.seen_)) {}
  ~RawSocket() { close(); }

  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  // The connection ends by a reset, as that of a process that was killed with data unread.
  void reset() {
    const linger none{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &none, sizeof none);
    close();
  }
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  // Up to and with `end`; what was read when the other side closed before.
  std::string read_until(std::string_view end) {
    for (;;) {
      const size_t at = seen_.find(end);
      if (at != std::string::npos) return take(at + end.size());
      if (!receive()) return take(seen_.size());
    }
  }
  std::string read_bytes(size_t count) {
    while (seen_.size() < count && receive()) continue;
    return take(std::min(count, seen_.size()));
  }
  std::string read_all() {
    while (receive()) continue;
    return take(seen_.size());
  }
  // A request or an answer with Content-Length: head and body.
  std::string read_message() {
    std::string text = read_until("\r\n\r\n");
    constexpr std::string_view kName = "Content-Length: ";
    const size_t at = text.find(kName);
    if (at != std::string::npos) text += read_bytes(std::stoul(text.substr(at + kName.size())));
    return text;
  }
  int fd() const { return fd_; }

 private:
  bool receive() {
    constexpr int kSliceMs = 50, kSlices = 400;
    pollfd state{.fd = fd_, .events = POLLIN, .revents = 0};
    for (int i = 0; ::poll(&state, 1, kSliceMs) == 0; ++i) {
      if (i == kSlices || (give_up_ != nullptr && give_up_->load())) return false;
    }
    char bytes[16384];
    const ssize_t n = ::recv(fd_, bytes, sizeof bytes, 0);
    if (n > 0) seen_.append(bytes, static_cast<size_t>(n));
    return n > 0;
  }
  std::string take(size_t size) {
    std::string taken = seen_.substr(0, size);
    seen_.erase(0, size);
    return taken;
  }

  int fd_;
  const std::atomic<bool>* give_up_;
  std::string seen_;  // read and not taken
};

// Listens on a loopback port and gives each connection to `serve`, on a thread of its own.
class RawWorker {
 public:
  using Serve = std::function<void(RawSocket& client, int connection_idx)>;
  explicit RawWorker(Serve serve) : serve_(std::move(serve)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    ::listen(listener_, 64);
    socklen_t size = sizeof address;
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    accepting_ = std::thread([this] { accept(); });
  }
  ~RawWorker() { stop(); }

  std::string address() const { return "http://127.0.0.1:" + std::to_string(port_); }
  int num_connections() const { return num_connections_.load(); }
  // Refuses from now on; waits for connections to end.
  void stop() {
    if (listener_ < 0) return;
    stopping_.store(true);
    ::shutdown(listener_, SHUT_RDWR);
    accepting_.join();
    ::close(std::exchange(listener_, -1));
    for (std::thread& thread : serving_) thread.join();
    serving_.clear();
  }

 private:
  void accept() {
    for (;;) {
      const int fd = ::accept(listener_, nullptr, nullptr);
      if (fd < 0) return;
      serving_.emplace_back([this, fd, number = num_connections_.fetch_add(1)] {
        RawSocket client(fd, &stopping_);
        serve_(client, number);
      });
    }
  }

  const Serve serve_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::thread accepting_;
  std::list<std::thread> serving_;  // of the accepting thread until it has ended
  std::atomic<int> num_connections_ = 0;
  std::atomic<bool> stopping_ = false;
};

inline std::string whole_answer(int status, std::string_view body, std::string_view headers = "") {
  return "HTTP/1.1 " + std::to_string(status) + " X\r\nContent-Type: application/json\r\n" + std::string(headers) +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

}  // namespace quern::door
