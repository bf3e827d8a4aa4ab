// The door over real sockets: a server with the door in front, workers that behave and workers that do not.
#include "server/door/door_fixture.h"

namespace quern::door {
namespace {

TEST_F(DoorTest, CarriesTheRequestAndBringsTheAnswerBack) {
  std::string seen;
  RawWorker worker([&](RawSocket& socket, int) {
    seen = socket.read_message();
    socket.send(whole_answer(201, "{\"a\":1}", "Openai-Model: z\r\nSet-Cookie: no=1\r\nServer: w\r\n"));
  });
  start({worker.address()});
  const std::string body = R"({"messages":[],"model":"m","x":"y"})";
  const std::string answer = ask(body, "/v1/chat/completions?a=b%20c&d",
                                 "Authorization: Bearer secret\r\nCookie: c=1\r\nX-Request-Id: id-7\r\nAccept: a/b\r\n"
                                 "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 201 ")) << answer;
  EXPECT_TRUE(answer.ends_with("\r\n\r\n{\"a\":1}")) << answer;
  EXPECT_TRUE(has(answer, "openai-model: z\r\n")) << answer;
  EXPECT_FALSE(has(answer, "no=1")) << answer;
  worker.stop();
  EXPECT_TRUE(seen.starts_with("POST /v1/chat/completions?a=b%20c&d= HTTP/1.1\r\nHost: 127.0.0.1:")) << seen;
  EXPECT_TRUE(seen.ends_with("\r\n\r\n" + body)) << seen;
  EXPECT_TRUE(has(seen, "X-Request-Id: id-7\r\n") && has(seen, "accept: a/b\r\n")) << seen;
  EXPECT_TRUE(has(seen, "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-")) << seen;
  EXPECT_FALSE(has(seen, "secret") || has(seen, "c=1")) << seen;
  EXPECT_TRUE(soon([&] { return outcome("r0 ok") == 1; }));
}

TEST_F(DoorTest, OtherNamesAndOtherBodiesAreLeftToTheRoute) {
  start({});
  for (const char* body : {R"({"model":"other","messages":[]})", "no json", "{}", ""}) {
    EXPECT_TRUE(has(ask(body), "not the door's")) << body;
  }
}

TEST_F(DoorTest, TheNameIsReplacedAndNothingElse) {
  std::string seen;
  RawWorker worker([&](RawSocket& socket, int) {
    seen = socket.read_message();
    socket.send(whole_answer(200, "{}"));
  });
  start({worker.address()});
  StaticModel& model = fleet_.models_by_uid["m"];
  model.model = "org/real \"name\"";
  model.api_key = "key-of-the-lease";
  model.base_path = "/openai";
  ask(R"({"x":"\"model\":\"m\"","tools":[{"model":"m"}], "model" : "m" ,"n":1.50})");
  worker.stop();
  EXPECT_TRUE(
      seen.ends_with(R"({"x":"\"model\":\"m\"","tools":[{"model":"m"}], "model" : "org/real \"name\"" ,"n":1.50})"))
      << seen;
  EXPECT_TRUE(seen.starts_with("POST /openai/v1/chat/completions HTTP/1.1\r\n")) << seen;
  EXPECT_TRUE(has(seen, "Authorization: Bearer key-of-the-lease\r\n")) << seen;
}

TEST_F(DoorTest, KeptConnectionsServeAgainAndStaleOnesAreReplaced) {
  RawWorker worker([&](RawSocket& socket, int connection_idx) {
    for (int i = 0; i < 2; ++i) {
      if (socket.read_message().empty()) return;
      // The first connection is closed behind its second answer, unannounced.
      socket.send(whole_answer(200, "{\"c\":" + std::to_string(connection_idx) + "}"));
    }
  });
  start({worker.address()});
  EXPECT_TRUE(has(ask(R"({"model":"m"})"), "{\"c\":0}"));
  EXPECT_TRUE(has(ask(R"({"model":"m"})"), "{\"c\":0}"));
  EXPECT_TRUE(has(ask(R"({"model":"m"})"), "{\"c\":1}"));
  EXPECT_TRUE(soon([&] { return outcome("r0 ok") == 3; }));
  EXPECT_EQ(worker.num_connections(), 2);
}

TEST_F(DoorTest, AKeptConnectionThatClosesUnderTheRequestIsReplacedOnce) {
  RawWorker worker([&](RawSocket& socket, int connection_idx) {
    socket.read_message();
    socket.send(whole_answer(200, "{\"c\":" + std::to_string(connection_idx) + "}"));
    socket.read_message();  // taken, and never answered
  });
  start({worker.address()});
  EXPECT_TRUE(has(ask(R"({"model":"m"})"), "{\"c\":0}"));
  EXPECT_TRUE(has(ask(R"({"model":"m"})"), "{\"c\":1}"));
  EXPECT_TRUE(soon([&] { return outcome("r0 ok") == 2; }));
}

TEST_F(DoorTest, ARefusedConnectionGoesToTheNextReplica) {
  RawWorker gone([](RawSocket&, int) {}), there([](RawSocket& socket, int) {
    socket.read_message();
    socket.send(whole_answer(200, "{\"ok\":1}"));
  });
  start({gone.address(), "unix:/nowhere/at/all.sock", there.address()});
  gone.stop();
  EXPECT_TRUE(has(ask(R"({"model":"m"})"), "{\"ok\":1}"));
  EXPECT_TRUE(soon([&] { return outcome("r0 refused") == 1; }));
  EXPECT_TRUE(soon([&] { return outcome("r1 refused") == 1; }));
  EXPECT_TRUE(soon([&] { return outcome("r2 ok") == 1; }));
}

TEST_F(DoorTest, NobodyThere) {
  start({"unix:/nowhere/at/all.sock"});
  const std::string answer = ask(R"({"model":"m"})");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 503 ") && has(answer, "Retry-After: ")) << answer;
  EXPECT_TRUE(has(answer, "\"code\":\"no_worker\"") && has(answer, "\"detail\"")) << answer;
}

TEST_F(DoorTest, ADeathBeforeTheBodyIsRepeatedOnce) {
  RawWorker dies([](RawSocket& socket, int) { socket.read_message(); }), lives([](RawSocket& socket, int) {
    socket.read_message();
    socket.send(whole_answer(200, "{\"ok\":1}"));
  });
  RawWorker dies_late([](RawSocket& socket, int) {
    socket.read_message();
    socket.send(kStreamHead);
    socket.reset();
  });
  start({dies.address(), lives.address()});
  fleet_.models_by_uid["late"].replicas = {{"d", dies_late.address()}, {"l", lives.address()}};
  fleet_.models_by_uid["poison"].replicas = {
      {"p0", dies.address()}, {"p1", dies_late.address()}, {"p2", lives.address()}};
  EXPECT_TRUE(has(ask(R"({"model":"m"})"), "{\"ok\":1}"));
  EXPECT_TRUE(soon([&] { return outcome("r0 broken") == 1; }));
  EXPECT_TRUE(has(ask(R"({"model":"late","stream":true})"), "{\"ok\":1}"));
  EXPECT_TRUE(soon([&] { return outcome("d broken") == 1; }));
  EXPECT_TRUE(ask(R"({"model":"poison"})").starts_with("HTTP/1.1 502 ")) << "two workers died of it: no third one";
  EXPECT_EQ(outcome("p2 ok"), 0);
}

TEST_F(DoorTest, HalfAnAnswerIsNeitherRepeatedNorTakenForWhole) {
  RawWorker half([](RawSocket& socket, int) {
    socket.read_message();
    socket.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"half\":");
  });
  RawWorker other([](RawSocket& socket, int) {
    socket.read_message();
    socket.send(whole_answer(200, "{\"ok\":1}"));
  });
  start({half.address(), other.address()});
  const std::string answer = ask(R"({"model":"m"})");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 502 ")) << answer;
  EXPECT_FALSE(has(answer, "half"));
  EXPECT_TRUE(soon([&] { return outcome("r0 broken") == 1; }));
  EXPECT_EQ(outcome("r1 ok"), 0);
}

TEST_F(DoorTest, WhatIsNoHttpIsABrokenWorker) {
  RawWorker noise([](RawSocket& socket, int) {
    socket.read_message();
    socket.send("SSH-2.0-OpenSSH\r\n\r\n");
  });
  RawWorker huge([](RawSocket& socket, int) {
    socket.read_message();
    socket.send("HTTP/1.1 200 OK\r\nX: " + std::string(200000, 'x') + "\r\n\r\n");
  });
  start({noise.address(), huge.address()});
  EXPECT_TRUE(ask(R"({"model":"m"})").starts_with("HTTP/1.1 502 "));
  EXPECT_TRUE(soon([&] { return outcome("r0 broken") == 1; }));
  EXPECT_TRUE(soon([&] { return outcome("r1 broken") == 1; }));
}

TEST_F(DoorTest, LargeHeadersAndInterimAnswersPass) {
  RawWorker worker([](RawSocket& socket, int) {
    socket.read_message();
    socket.send("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n");
    socket.send(whole_answer(200, "{\"ok\":1}", "X-Large: " + std::string(40000, 'x') + "\r\n"));
  });
  start({worker.address()});
  const std::string answer = ask(R"({"model":"m"})");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 ") && has(answer, "{\"ok\":1}")) << answer.substr(0, 500);
}

TEST_F(DoorTest, AnAnswerWithoutLengthEndsWithItsConnection) {
  RawWorker worker([](RawSocket& socket, int) {
    socket.read_message();
    socket.send("HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{\"ok\":1}");
  });
  start({worker.address()});
  EXPECT_TRUE(ask(R"({"model":"m"})").ends_with("{\"ok\":1}"));
  EXPECT_TRUE(ask(R"({"model":"m"})").ends_with("{\"ok\":1}"));
  EXPECT_EQ(worker.num_connections(), 2);
}

TEST_F(DoorTest, LargeBodiesBothWays) {
  const std::string large(3u << 20, 'x');
  RawWorker worker([&](RawSocket& socket, int) {
    const std::string seen = socket.read_message();
    socket.send(whole_answer(200, "{\"length\":" + std::to_string(seen.size()) + ",\"x\":\"" + large + "\"}"));
  });
  start({worker.address()});
  RawSocket socket = client();
  socket.send(request("{\"x\":\"" + large + "\",\"model\":\"m\"}", "/v1/chat/completions", "Connection: close\r\n"));
  const std::string answer = socket.read_all();
  EXPECT_GT(answer.size(), large.size());
  EXPECT_TRUE(answer.ends_with("\r\n0\r\n\r\n"));
}

TEST_F(DoorTest, EventsComeOneByOne) {
  std::promise<void> first_seen;
  RawWorker worker([&](RawSocket& socket, int) {
    socket.read_message();
    socket.send(std::string(kStreamHead) + chunk("data: 1\n\n"));
    first_seen.get_future().wait();
    socket.send(chunk("data: 2\n\n") + "0\r\n\r\n");
  });
  start({worker.address()});
  RawSocket socket = client();
  socket.send(request(R"({"model":"m","stream":true})"));
  const std::string head = socket.read_until("data: 1\n\n");
  first_seen.set_value();  // the second event is sent only once the first has arrived
  EXPECT_TRUE(has(head, "HTTP/1.1 200 ") && has(head, "Content-Type: text/event-stream\r\n")) << head;
  EXPECT_TRUE(has(head, "Transfer-Encoding: chunked")) << head;
  const std::string rest = socket.read_until("0\r\n\r\n");
  EXPECT_TRUE(has(rest, "data: 2\n\n")) << rest;
}

TEST_F(DoorTest, AWorkerThatDiesInMidStreamIsToldInEachDialect) {
  std::string type = "text/event-stream", first = "data: {\"n\":1}\n\n";
  RawWorker worker([&](RawSocket& socket, int) {
    socket.read_message();
    socket.send("HTTP/1.1 200 OK\r\nContent-Type: " + type + "\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(first) +
                chunk("data: {\"hal"));
    socket.reset();
  });
  start({worker.address()});
  const auto stream = [&](const std::string& path) {
    RawSocket socket = client();
    socket.send(request(R"({"model":"m","stream":true})", path, "Connection: close\r\n"));
    return socket.read_all();
  };
  const std::string openai = stream("/v1/chat/completions");
  EXPECT_TRUE(has(openai, first)) << openai;
  EXPECT_FALSE(has(openai, "hal")) << openai;
  EXPECT_TRUE(has(openai, "data: {\"error\":{\"message\":\"the worker of the model broke off\"")) << openai;
  EXPECT_TRUE(has(openai, "data: [DONE]\n\n")) << openai;
  const std::string anthropic = stream("/v1/messages");
  EXPECT_TRUE(has(anthropic, "event: error\ndata: {\"type\":\"error\",\"error\":{")) << anthropic;
  const std::string responses = stream("/v1/responses");
  EXPECT_TRUE(has(responses, "event: error\ndata: {\"type\":\"error\",\"code\":\"worker_died\"")) << responses;
  type = "application/x-ndjson";
  first = "{\"n\":1}\n";
  const std::string ollama = stream("/api/chat");
  EXPECT_TRUE(has(ollama, "{\"error\":\"the worker of the model broke off\"}\n")) << ollama;
  for (const std::string& text : {openai, anthropic, responses, ollama})
    EXPECT_TRUE(text.ends_with("0\r\n\r\n")) << text;
  type = "audio/wav";
  const std::string audio = stream("/v1/chat/completions");
  EXPECT_FALSE(audio.ends_with("0\r\n\r\n")) << "a stream without words must not look whole";
  EXPECT_TRUE(soon([&] { return outcome("r0 broken") == 5; }));
}

TEST_F(DoorTest, AClientThatLeavesClosesTheWorkersConnection) {
  std::promise<void> closed;
  RawWorker worker([&](RawSocket& socket, int) {
    socket.read_message();
    socket.send(std::string(kStreamHead) + chunk("data: 1\n\n"));
    socket.read_all();
    closed.set_value();
  });
  start({worker.address()});
  {
    RawSocket socket = client();
    socket.send(request(R"({"model":"m","stream":true})"));
    socket.read_until("data: 1\n\n");
  }
  ASSERT_EQ(closed.get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
  EXPECT_TRUE(soon([&] { return outcome("r0 abandoned") == 1; }));
}

TEST_F(DoorTest, AClientThatLeavesBeforeAnyAnswerToo) {
  std::promise<void> asked, closed;
  RawWorker worker([&](RawSocket& socket, int) {
    socket.read_message();
    asked.set_value();
    socket.read_all();
    closed.set_value();
  });
  start({worker.address()});
  RawSocket socket = client();
  socket.send(request(R"({"model":"m"})"));
  asked.get_future().wait();
  socket.close();
  ASSERT_EQ(closed.get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
  EXPECT_TRUE(soon([&] { return outcome("r0 abandoned") == 1; }));
}

TEST_F(DoorTest, ASlowReaderSlowsItsOwnWorkerDown) {
  std::atomic<size_t> sent = 0;
  RawWorker worker([&](RawSocket& socket, int) {
    socket.read_message();
    socket.send(kStreamHead);
    const std::string event = chunk("data: " + std::string(65000, 'x') + "\n\n");
    for (int i = 0; i < 1024 && socket.send(event); ++i) sent += event.size();
    socket.send("0\r\n\r\n");
  });
  start({worker.address()});
  RawSocket socket = client();
  socket.send(request(R"({"model":"m","stream":true})", "/v1/chat/completions", "Connection: close\r\n"));
  socket.read_until("data: ");
  size_t before = 0;
  ASSERT_TRUE(soon([&] {
    std::this_thread::sleep_for(milliseconds(200));
    const size_t now = sent.load();
    return now > 0 && std::exchange(before, now) == now;
  })) << "the worker is never held up";
  EXPECT_LT(before, 32u << 20) << "of 64 MiB: the sockets' own buffers at most";
  EXPECT_TRUE(socket.read_all().ends_with("0\r\n\r\n"));
  EXPECT_TRUE(soon([&] { return outcome("r0 ok") == 1; }));
}

TEST_F(DoorTest, AnOverloadedReplicaHandsOverToAnotherOne) {
  RawWorker busy([](RawSocket& socket, int) {
    socket.read_message();
    socket.send(whole_answer(429, "{\"error\":\"full\"}", "Retry-After: 7\r\n"));
  });
  RawWorker free([](RawSocket& socket, int) {
    socket.read_message();
    socket.send(whole_answer(200, "{\"ok\":1}"));
  });
  start({busy.address(), free.address()});
  fleet_.models_by_uid["alone"].replicas = {{"a", busy.address()}};
  EXPECT_TRUE(has(ask(R"({"model":"m"})"), "{\"ok\":1}"));
  EXPECT_TRUE(soon([&] { return outcome("r0 overloaded") == 1; }));
  const std::string answer = ask(R"({"model":"alone"})");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 429 ")) << answer;
  EXPECT_TRUE(has(answer, "retry-after: 7\r\n") && answer.ends_with("{\"error\":\"full\"}")) << answer;
}

TEST_F(DoorTest, RefusalsOfTheFleetInEachDialect) {
  start({});
  using Reason = RouteRefusal::Reason;
  fleet_.refusal = RouteRefusal{.reason = Reason::kTimeout, .message = "it loads too long", .retry_after_s = 30};
  std::string answer = ask(R"({"model":"m"})");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 503 ") && has(answer, "Retry-After: 30\r\n")) << answer;
  EXPECT_TRUE(has(answer, "\"detail\":\"it loads too long\"")) << answer;
  EXPECT_TRUE(has(ask(R"({"model":"m"})", "/v1/messages"), "{\"type\":\"error\",\"error\":{"));
  EXPECT_TRUE(has(ask(R"({"model":"m"})", "/api/generate"), "{\"error\":\"it loads too long\"}"));
  fleet_.refusal = RouteRefusal{.reason = Reason::kBusy, .message = "too many"};
  EXPECT_TRUE(ask(R"({"model":"m"})").starts_with("HTTP/1.1 429 "));
  fleet_.refusal = RouteRefusal{.reason = Reason::kUnknownModel, .message = "no such model"};
  answer = ask(R"({"model":"m"})");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 404 ") && has(answer, "\"model_not_found\"")) << answer;
}

TEST_F(DoorTest, WhatTheFleetIsToldOfARequest) {
  std::vector<RouteRequest> seen;
  std::mutex mutex;
  fleet_.on_request = [&](const RouteRequest& request) {
    const std::lock_guard lock(mutex);
    seen.push_back(request);
  };
  fleet_.refusal = RouteRefusal{.reason = RouteRefusal::Reason::kBusy, .message = "no"};
  start({});
  const std::string prompt = "\"prompt\":\"" + std::string(1000, 'p') + "\"";
  ask("{\"model\":\"m\"," + prompt + "}", "/v1/completions");
  ask("{\"model\":\"m\"," + prompt + "}", "/v1/completions", "X-Session-Id: s\r\n");
  ask("{\"model\":\"m:latest\"}", "/api/generate");
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[0].prefix.size(), 3u);
  EXPECT_EQ(seen[1].prefix, seen[0].prefix);
  EXPECT_EQ(seen[0].session, 0u);
  EXPECT_NE(seen[1].session, 0u);
  EXPECT_EQ(seen[2].uid, "m");
}

TEST_F(DoorTest, TheServersEndTellsTheClientOfAStream) {
  std::promise<void> closed;
  RawWorker worker([&](RawSocket& socket, int) {
    socket.read_message();
    socket.send(std::string(kStreamHead) + chunk("data: 1\n\n"));
    socket.read_all();
    closed.set_value();
  });
  start({worker.address()});
  RawSocket socket = client();
  socket.send(request(R"({"model":"m","stream":true})"));
  socket.read_until("data: 1\n\n");
  server_->stop();
  const std::string rest = socket.read_all();
  EXPECT_TRUE(has(rest, "the server is shutting down") && rest.ends_with("0\r\n\r\n")) << rest;
  EXPECT_EQ(closed.get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
}

TEST_F(DoorTest, ManyRequestsAtOnceOverUnixSockets) {
  char folder[] = "/tmp/quern_door_XXXXXX";
  ASSERT_NE(::mkdtemp(folder), nullptr);
  http::ServerOptions options;
  options.unix_socket = std::string(folder) + "/w.sock";
  const http::Handler echo = [](http::Request& request, http::Reply& reply) -> http::asio::awaitable<void> {
    std::string body = request.body;
    co_await reply.send(200, "application/json", std::move(body), {});
  };
  auto worker = http::Server::start(options, echo);
  ASSERT_TRUE(worker) << worker.error().message;
  start({"unix:" + options.unix_socket});
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      RawSocket socket = client();
      for (int i = 0; i < 100; ++i) {
        const std::string body = fmt::format("{{\"model\":\"m\",\"t\":{},\"i\":{}}}", t, i);
        socket.send(request(body));
        right += socket.read_message().ends_with(body) ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right.load(), 800);
  EXPECT_TRUE(soon([&] { return outcome("r0 ok") == 800; }));
  stop();
  worker->reset();
  ::rmdir(folder);
}

}  // namespace
}  // namespace quern::door
