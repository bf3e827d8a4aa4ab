// The door over real sockets, for its tests: a server with the door in front.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <future>

#include "server/anthropic/answer.h"
#include "server/door/door.h"
#include "server/door/raw_sockets.h"
#include "server/door/static_fleet.h"
#include "server/http/server.h"
#include "server/ollama/answer.h"
#include "server/responses/answer.h"

namespace quern::door {

using std::chrono::milliseconds;

// Waits for what another thread does; false after 20 s.
inline bool soon(const std::function<bool()>& is_so) {
  for (int i = 0; i < 2000; ++i) {
    if (is_so()) return true;
    std::this_thread::sleep_for(milliseconds(10));
  }
  return false;
}

class DoorTest : public ::testing::Test {
 protected:
  DoorTest() : log_(LogFormat::kText, LogLevel::kError) {}
  ~DoorTest() override { stop(); }

  // Model "m" at these addresses, asked in this order.
  void start(std::vector<std::string> addresses) {
    StaticModel& model = fleet_.models_by_uid["m"];
    for (std::string& address : addresses) {
      model.replicas.push_back({"r" + std::to_string(model.replicas.size()), std::move(address)});
    }
    auto door = Door::create(fleet_, log_, {});
    ASSERT_TRUE(door) << door.error().message;
    door_ = std::move(*door);
    http::ServerOptions http;
    http.port = 0;
    http.drain_timeout = std::chrono::seconds(0);
    auto server = http::Server::start(
        http, [this](http::Request& request, http::Reply& reply) { return answer(request, reply); });
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
  }
  // As the app does it: the door first, then the route, which knows no model here.
  http::asio::awaitable<void> answer(http::Request& request, http::Reply& reply) {
    const Route& route = *std::ranges::find(routes_, request.path, &Route::path);
    if (request.header("x-is-key")) {
      request.principal =
          std::make_shared<people::Principal>(people::Principal{.kind = people::Principal::Kind::kApiKey});
    }
    reply.start_counting();
    const bool served = co_await door_->serve(route, models_, request, reply);
    tokens_ += reply.tokens();
    if (served) co_return;
    const ApiError error{.status = 404, .message = "not the door's"};
    co_await send_error(reply, error, route.error_body);
  }
  void stop() {
    if (server_) {
      server_->stop();
      server_->join();
    }
    server_.reset();
    door_.reset();
  }

  RawSocket client() { return RawSocket::to_port(server_->port()); }
  static std::string request(const std::string& body, const std::string& path = "/v1/chat/completions",
                             const std::string& headers = "") {
    return "POST " + path + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" + headers +
           "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  }
  std::string ask(const std::string& body, const std::string& path = "/v1/chat/completions",
                  const std::string& headers = "") {
    RawSocket socket = client();
    socket.send(request(body, path, headers));
    return socket.read_message();
  }
  int outcome(const std::string& name) {
    const auto outcomes = fleet_.outcomes();
    const auto found = outcomes.find(name);
    return found == outcomes.end() ? 0 : found->second;
  }

  StaticFleet fleet_;
  std::atomic<int64_t> tokens_ = 0;  // that all requests have cost
  const ModelTable models_;
  const Log log_;
  const Routes routes_ = {
      carried({"POST", "/v1/chat/completions", {}}),
      carried({"POST", "/v1/completions", {}}),
      carried({"POST", "/v1/messages", {}, Access::kKey, anthropic::error_body, anthropic::error_event}),
      carried({"POST", "/v1/audio/transcriptions", {}}),
      carried({"POST", "/v1/responses", {}, Access::kKey, openai_error_body, responses::error_event}),
      carried({"POST", "/api/chat", {}, Access::kKey, ollama::error_body, ollama::error_line}),
      carried({"POST", "/api/generate", {}, Access::kKey, ollama::error_body, ollama::error_line}),
  };
  std::unique_ptr<Door> door_;
  std::unique_ptr<http::Server> server_;
};

inline constexpr const char* kStreamHead =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

inline std::string chunk(std::string_view bytes) {
  return fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes);
}

inline bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace quern::door
