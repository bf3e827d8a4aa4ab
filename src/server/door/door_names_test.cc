// Forms, adapters and the bill: what the door reads of a request and of an answer.
#include <tuple>

#include "server/door/door_fixture.h"

namespace quern::door {
namespace {

TEST_F(DoorTest, AFormGoesByItsModel) {
  std::string seen;
  RawWorker worker([&](RawSocket& socket, int) {
    seen = socket.read_message();
    socket.send(whole_answer(200, "{\"text\":\"hi\"}"));
  });
  start({worker.address()});
  fleet_.models_by_uid["m"].model = "org/whisper";
  const auto ask_form = [&](const std::string& names) {
    RawSocket socket = client();
    const std::string body =
        "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\nRIFF\r\n" + names +
        "--b--\r\n";
    socket.send(
        "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=b\r\n"
        "Content-Length: " +
        std::to_string(body.size()) + "\r\n\r\n" + body);
    return socket.read_message();
  };
  const std::string model = "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n";
  EXPECT_TRUE(has(ask_form(model), "{\"text\":\"hi\"}"));
  EXPECT_TRUE(has(ask_form(""), "not the door's"));
  const std::string refused = ask_form(model + model);
  EXPECT_TRUE(refused.starts_with("HTTP/1.1 400 ") && has(refused, "\"param\":\"model\"")) << refused;
  worker.stop();
  EXPECT_TRUE(has(seen, "content-type: multipart/form-data; boundary=b\r\n")) << seen;
  EXPECT_TRUE(
      seen.ends_with("RIFF\r\n--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\norg/whisper\r\n--b--\r\n"))
      << seen;
}

TEST_F(DoorTest, AnAdapterIsAModelOfItsOwn) {
  std::string seen;
  RawWorker worker([&](RawSocket& socket, int) {
    seen = socket.read_message();
    socket.send(whole_answer(200, "{}"));
  });
  std::mutex mutex;
  std::vector<RouteRequest> asked;
  fleet_.on_request = [&](const RouteRequest& request) {
    const std::lock_guard lock(mutex);
    asked.push_back(request);
  };
  start({worker.address()});
  fleet_.adapters_by_name = {{"sql", {"m", "sql"}}, {"m:sql", {"m", "sql"}}};
  const std::string prompt = ",\"prompt\":\"" + std::string(1000, 'p') + "\"}";
  ask("{\"model\":\"m\"" + prompt, "/v1/completions", "Connection: close\r\n");
  ask("{\"model\":\"m:sql\"" + prompt, "/v1/completions", "Connection: close\r\n");
  EXPECT_TRUE(has(seen, "{\"model\":\"sql\",\"prompt\"")) << seen;
  fleet_.models_by_uid["m"].model = "m";
  fleet_.models_by_uid["m"].fields = R"("lora":[{"id":0,"scale":1}])";
  ask("{\"model\":\"sql\"" + prompt, "/v1/completions", "Connection: close\r\n");
  worker.stop();
  EXPECT_TRUE(has(seen, R"({"model":"m","lora":[{"id":0,"scale":1}],"prompt")")) << seen;
  ASSERT_EQ(asked.size(), 3u);
  EXPECT_EQ(asked[0].adapter, "");
  EXPECT_EQ(asked[1].adapter, "sql");
  EXPECT_EQ(asked[1].uid, "m");
  EXPECT_EQ(asked[1].prefix, asked[2].prefix);
  EXPECT_NE(asked[0].prefix.at(0), asked[1].prefix.at(0)) << "what an adapter has cached is of no use to its model";
}

TEST_F(DoorTest, WhatAnswersCostIsCountedForKeys) {
  const std::string events = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"usage\":null}\n\n";
  const std::string last = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":4,\"completion_tokens\":5}}\n\n";
  std::string seen;
  std::atomic<bool> breaks = false;
  RawWorker worker([&](RawSocket& socket, int) {
    for (;;) {
      const std::string message = socket.read_message();
      if (message.empty()) return;  // the door has let go of the connection
      seen = message;
      if (!has(seen, "\"stream\":true")) {
        socket.send(whole_answer(200, R"({"usage":{"prompt_tokens":30,"completion_tokens":3}})"));
        continue;
      }
      socket.send(kStreamHead + chunk(events) + chunk(events));
      if (breaks) return socket.reset();
      socket.send(chunk(has(seen, "include_usage\":true") ? last : "") + chunk("data: [DONE]\n\n") + "0\r\n\r\n");
    }
  });
  start({worker.address()});
  const auto cost = [&](const std::string& body, const std::string& headers = "X-Is-Key: 1\r\n") {
    tokens_ = 0;
    RawSocket socket = client();
    socket.send(request(body, "/v1/chat/completions", headers + "Connection: close\r\n"));
    const std::string answer = socket.read_all();
    soon([&] { return tokens_ != 0 || headers.empty(); });
    return std::pair(tokens_.load(), answer);
  };
  EXPECT_EQ(cost(R"({"model":"m"})").first, 33);
  EXPECT_EQ(cost(R"({"model":"m"})", "").first, 0);
  auto [tokens, answer] = cost(R"({"model":"m","stream":true})");
  EXPECT_EQ(tokens, 9);
  EXPECT_TRUE(has(seen, R"({"model":"m","stream_options":{"include_usage":true},"stream":true})")) << seen;
  EXPECT_FALSE(has(answer, "usage")) << "the client did not ask for it: " << answer;
  EXPECT_TRUE(has(answer, "data: [DONE]")) << answer;
  std::tie(tokens, answer) = cost(R"({"stream_options":{"include_usage":true},"model":"m","stream":true})");
  EXPECT_EQ(tokens, 9);
  EXPECT_TRUE(has(answer, "\"prompt_tokens\":4") && has(answer, "\"usage\":null")) << answer;
  std::tie(tokens, answer) = cost(R"({"stream_options":{},"model":"m","stream":true})");
  EXPECT_EQ(tokens, 9);
  EXPECT_TRUE(has(seen, R"({"stream_options":{"include_usage":true},"model":"m","stream":true})")) << seen;
  std::tie(tokens, answer) = cost(R"({"model":"m","stream":true})", "");
  EXPECT_TRUE(has(seen, R"({"model":"m","stream":true})")) << "nobody counts: nothing is asked";
  breaks = true;
  const std::string prompt = std::string(400, 'p');
  EXPECT_EQ(cost("{\"model\":\"m\",\"stream\":true,\"prompt\":\"" + prompt + "\"}").first, 402 / 4 + 2);
}

}  // namespace
}  // namespace quern::door
