// What the app shows of a fleet: lists, metrics, and that its routes use the door.
#include <gtest/gtest.h>

#include "server/app.h"
#include "server/door/raw_sockets.h"
#include "server/door/static_fleet.h"

namespace quern::door {
namespace {

std::string ask(const http::Server& server, const std::string& first_line, const std::string& body) {
  RawSocket socket = RawSocket::to_port(server.port());
  socket.send(first_line + " HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
              body);
  return socket.read_message();
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(DoorApp, ListsMetricsAndRoutes) {
  RawWorker worker([](RawSocket& socket, int) {
    while (!socket.read_message().empty()) socket.send(whole_answer(200, "vllm:x 5\n"));
  });
  StaticFleet fleet;
  fleet.models_by_uid["m"].replicas = {{"r0", worker.address()}};
  const ModelTable models;
  Metrics metrics;
  const Log log(LogFormat::kText, LogLevel::kError);
  AppOptions options;
  options.store_path = ":memory:";
  options.fleet = &fleet;
  auto app = App::create(models, metrics, log, std::move(options));
  ASSERT_TRUE(app) << app.error().message;
  http::ServerOptions http;
  http.port = 0;
  auto started = http::Server::start(http, (*app)->handler());
  ASSERT_TRUE(started) << started.error().message;
  (*app)->set_ready();
  const http::Server& server = **started;

  for (const Route& route : (*app)->routes()) {
    if (!route.carried) continue;
    EXPECT_TRUE(has(ask(server, route.method + " " + route.path, R"({"model":"m"})"), "vllm:x 5")) << route.path;
    EXPECT_FALSE(has(ask(server, route.method + " " + route.path, R"({"model":"other"})"), "vllm:x 5")) << route.path;
  }
  EXPECT_TRUE(has(ask(server, "GET /v1/models", ""), "{\"id\":\"m\",\"object\":\"model\""));
  EXPECT_TRUE(has(ask(server, "GET /v1/models/m", ""), "\"id\":\"m\""));
  EXPECT_TRUE(ask(server, "GET /v1/models/other", "").starts_with("HTTP/1.1 404 "));
  EXPECT_TRUE(has(ask(server, "GET /api/tags", ""), "{\"name\":\"m\",\"model\":\"m\""));
  EXPECT_TRUE(has(ask(server, "GET /api/ps", ""), "\"name\":\"m\""));
  const std::string shown = ask(server, "GET /metrics", "");
  EXPECT_TRUE(has(shown, "quern_door_requests_total{model_name=\"m\",replica=\"r0\",outcome=\"ok\"} ")) << shown;
  EXPECT_TRUE(has(shown, "quern_door_requests_in_flight{model_name=\"m\",replica=\"r0\"} 0\n"));
  EXPECT_TRUE(has(shown, "vllm:x{model_name=\"m\",replica=\"r0\",node=\"local\"} 5\n")) << shown;
  (*started)->stop();
  (*started)->join();
  (*app)->stop();
}

}  // namespace
}  // namespace quern::door
