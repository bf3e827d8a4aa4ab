#include <gtest/gtest.h>

#include "server/anthropic/answer.h"
#include "server/foreign/chat_answer.h"
#include "server/foreign/llama_server.h"
#include "server/foreign/translation.h"
#include "server/ollama/answer.h"

namespace quern::foreign {
namespace {

Json json(const char* text) {
  return *parse_json(text, "test");
}

ApiResult<std::unique_ptr<Translation>> translated(const char* path, const char* engine, const char* body) {
  const Json parsed = json(body);
  return translate({.engine = engine,
                    .path = path,
                    .body = parsed,
                    .shown_name = "shown",
                    .worker_name = "theirs",
                    .context = 4096});
}

std::string refusal(const char* path, const char* engine, const char* body) {
  const auto result = translated(path, engine, body);
  return result ? "" : result.error().message;
}

constexpr const char* kMessages =
    R"({"model":"m","max_tokens":9,"top_k":5,"stream":true,"stop_sequences":["x"],"system":"s","messages":[)"
    R"({"role":"user","content":"hi"},)"
    R"({"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":{"a":1}}]},)"
    R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"42"}]}],)"
    R"("tools":[{"name":"f","input_schema":{"type":"object"}}],"tool_choice":{"type":"any"}})";

TEST(Translate, MessagesAreAChat) {
  const auto made = translated("/v1/messages", "vllm", kMessages);
  ASSERT_TRUE(made) << made.error().message;
  const Json& body = (*made)->body;
  EXPECT_EQ((*made)->path, "/v1/chat/completions");
  EXPECT_TRUE((*made)->is_stream);
  EXPECT_EQ(body["model"], "theirs");
  EXPECT_EQ(body["messages"].size(), 4u);
  EXPECT_EQ(body["messages"][2]["tool_calls"][0]["function"]["arguments"], R"({"a":1})");
  EXPECT_EQ(body["messages"][3]["tool_call_id"], "t1");
  EXPECT_EQ(body["tool_choice"], "required");
  EXPECT_EQ(body["tools"][0]["function"]["name"], "f");
  EXPECT_EQ(body["stop"], json(R"(["x"])"));
  EXPECT_EQ(body["top_k"], 5);
  EXPECT_EQ(body["stream_options"]["include_usage"], true);
  EXPECT_FALSE(body.contains("temperature"));
  EXPECT_EQ(refusal("/v1/messages", "openai", kMessages), "top_k: engine openai has nothing like it");
  EXPECT_EQ(*translated("/v1/messages", "quern", kMessages), nullptr);
}

TEST(Translate, OllamasChat) {
  const auto made =
      translated("/api/chat", "llama.cpp",
                 R"({"model":"m","format":"json","think":false,"options":{"repeat_penalty":1.5,"num_predict":7},
      "messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{}}}]},
                  {"role":"tool","content":"42"}]})");
  ASSERT_TRUE(made) << made.error().message;
  const Json& body = (*made)->body;
  EXPECT_TRUE((*made)->is_stream);
  EXPECT_EQ(body["repeat_penalty"], 1.5);
  EXPECT_EQ(body["max_tokens"], 7);
  EXPECT_EQ(body["response_format"]["type"], "json_object");
  EXPECT_EQ(body["chat_template_kwargs"]["enable_thinking"], false);
  EXPECT_EQ(body["messages"][1]["tool_calls"][0]["id"], body["messages"][2]["tool_call_id"]);
  EXPECT_EQ(refusal("/api/chat", "vllm",
                    R"({"model":"m","options":{"typical_p":0.5},"messages":[{"role":"user","content":"a"}]})"),
            "options.typical_p: engine vllm has nothing like it");
  EXPECT_NE(refusal("/api/chat", "vllm",
                    R"({"model":"m","options":{"num_ctx":5000},"messages":[{"role":"user","content":"a"}]})"),
            "");
  const auto load = translated("/api/generate", "vllm", R"({"model":"m"})");
  ASSERT_TRUE(load);
  EXPECT_TRUE((*load)->answers_itself);
}

TEST(Translate, FieldsThatLlamaServerCallsOtherwise) {
  EXPECT_FALSE(may_need_translation("llama.cpp", "/v1/chat/completions", R"({"model":"m","top_k":1})", 0));
  EXPECT_TRUE(may_need_translation("llama.cpp", "/v1/chat/completions", R"({"repetition_penalty":1.1})", 0));
  EXPECT_FALSE(may_need_translation("vllm", "/v1/chat/completions", R"({"repetition_penalty":1.1})", 0));
  const auto made = translated("/v1/chat/completions", "llama.cpp",
                               R"({"model":"m","repetition_penalty":1.1,"min_tokens":0,
                                   "structured_outputs":{"choice":["a\"b","c"]}})");
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_TRUE((*made)->keeps_answer);
  EXPECT_EQ((*made)->body, json(R"({"model":"theirs","repeat_penalty":1.1,"grammar":"root ::= \"a\\\"b\" | \"c\""})"));
  EXPECT_EQ(refusal("/v1/chat/completions", "llama.cpp", R"({"structured_outputs":{"regex":"a"}})"),
            "structured_outputs.regex: engine llama.cpp has nothing like it");
  EXPECT_EQ(refusal("/v1/completions", "llama.cpp", R"({"min_tokens":3})"),
            "min_tokens: engine llama.cpp has nothing like it");
}

TEST(Translate, LimitsOverVllmsContext) {
  const char* path = "/v1/chat/completions";
  EXPECT_FALSE(may_need_translation("vllm", path, R"({"max_tokens": 4096})", 4096));
  EXPECT_FALSE(may_need_translation("vllm", path, R"({"max_tokens": 9999})", 0));
  EXPECT_TRUE(may_need_translation("vllm", path, R"({"max_tokens" : 99999999999999999999})", 4096));
  EXPECT_TRUE(may_need_translation("vllm", path, R"({"max_tokens":1,"max_completion_tokens":4097})", 4096));
  const auto made = translated(path, "vllm", R"({"model":"m","max_tokens":1,"max_completion_tokens":99999})");
  ASSERT_TRUE(made);
  EXPECT_EQ((*made)->body, json(R"({"model":"theirs","max_tokens":1,"max_completion_tokens":4096})"));
}

TEST(Translate, RanksAreWrittenAlike) {
  const char* asked = R"({"model":"m","query":"q","documents":["a",{"text":"b"}],"return_documents":true})";
  for (const char* answer : {R"({"results":[{"index":0,"relevance_score":-1},{"index":1,"relevance_score":2}]})",
                             R"([{"index":0,"score":-1},{"index":1,"score":2}])"}) {
    const auto made = translated("/v2/rerank", "sglang", asked);
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_EQ((*made)->path, "/v1/rerank");
    const auto whole = (*made)->whole(json(answer));
    ASSERT_TRUE(whole) << whole.error().message;
    EXPECT_EQ((*whole)["results"][0], json(R"({"index":1,"relevance_score":2.0,"document":{"text":"b"}})"));
    EXPECT_EQ((*whole)["model"], "shown");
  }
  const auto made = translated("/v1/rerank", "vllm", asked);
  for (const char* answer : {R"({"results":[{"index":2,"relevance_score":1}]})", R"({"results":[3]})", "7", "{}"}) {
    EXPECT_FALSE((*made)->whole(json(answer))) << answer;
  }
}

std::string streamed(const char* path, const char* engine, const char* body, ErrorBody error_event,
                     const std::string& bytes, size_t piece) {
  auto made = translated(path, engine, body);
  EXPECT_TRUE(made) << made.error().message;
  StreamTranslator translator(**made, error_event);
  std::string out;
  for (size_t at = 0; at < bytes.size(); at += piece) out += translator.push(bytes.substr(at, piece));
  return out + translator.finish();
}

std::string data(const char* delta, const char* rest = "") {
  return std::string("data: {\"choices\":[{\"index\":0,\"delta\":") + delta + rest + "}]}\r\n\r\n";
}

const std::string kCalls = ": ping\n\n" + data(R"({"role":"assistant","content":""})") +
                           data(R"({"reasoning_content":"let me see"})") + data(R"({"content":"so"})") +
                           data(R"({"tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":""}}]})") +
                           data(R"({"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":"}}]})") +
                           data(R"({"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]})") +
                           data(R"({"tool_calls":[{"index":1,"function":{"name":"g","arguments":"{}"}}]})") +
                           data("{}", R"(,"finish_reason":"tool_calls")") +
                           "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":7,"
                           "\"prompt_tokens_details\":{\"cached_tokens\":2}}}\n\ndata: [DONE]\n\n";

TEST(StreamTranslator, SameEventsWhereverTheBytesAreCut) {
  const std::string once = streamed("/v1/messages", "vllm", kMessages, anthropic::error_event, kCalls, kCalls.size());
  for (const char* word :
       {R"("type":"tool_use")", R"("name":"g")", R"("partial_json":"1}")", R"("stop_reason":"tool_use")",
        R"("output_tokens":7)", R"("input_tokens":3)", "message_stop"}) {
    EXPECT_NE(once.find(word), std::string::npos) << word << "\n" << once;
  }
  EXPECT_EQ(once.find("let me see"), std::string::npos);  // nobody asked for thoughts
  const auto kinds = [](const std::string& events) {
    std::string lines;
    for (size_t at = 0; (at = events.find("event: ", at)) != std::string::npos; ++at) {
      lines += events.substr(at, events.find('\n', at) - at);
    }
    return lines;
  };
  for (const size_t piece : {1, 7, 100}) {
    EXPECT_EQ(kinds(streamed("/v1/messages", "vllm", kMessages, anthropic::error_event, kCalls, piece)), kinds(once));
  }
  const char* chat = R"({"model":"m","messages":[{"role":"user","content":"a"}]})";
  const std::string lines = streamed("/api/chat", "vllm", chat, ollama::error_line, kCalls, 9);
  EXPECT_NE(lines.find(R"("thinking":"let me see")"), std::string::npos) << lines;
  EXPECT_NE(lines.find(R"("name":"f","arguments":{"a":1})"), std::string::npos) << lines;
  EXPECT_NE(lines.find(R"("eval_count":7)"), std::string::npos) << lines;
}

// What comes from outside may be anything: an error in the client's dialect is its end.
TEST(StreamTranslator, WhatIsNoAnswerEndsInAnError) {
  const std::string call = data(R"({"tool_calls":[{"index":1,"function":{"name":"f","arguments":"{"}}]})");
  const std::string hostile[] = {
      "data: {\n\n",
      "data: 7\n\n",
      "data: {\"choices\":7}\n\n",
      "data: {\"choices\":[7]}\n\n",
      "data: {\"error\":{\"message\":\"no room\"}}\n\n",
      "error: {\"message\":\"no room\"}\n\n",
      data(R"({"content":"a"})"),  // and nothing more
      call + data(R"({"tool_calls":[{"index":0,"function":{"name":"g","arguments":"{"}}]})"),
      call + data(R"({"content":"x"})") + data(R"({"tool_calls":[{"index":1,"function":{"arguments":"}"}}]})"),
      data(R"({"tool_calls":[{"index":0,"function":{"arguments":"}"}}]})"),
      data(R"({"tool_calls":[7]})"),
      R"(data: {"choices":[{"text":"x","delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{"}}]}}]})"
      "\n\n" +
          data(R"({"tool_calls":[{"index":0,"function":{"arguments":"}"}}]})"),
      "data: " + std::string(9u << 20, 'a'),
  };
  for (const std::string& bytes : hostile) {
    const std::string out = streamed("/v1/messages", "vllm", kMessages, anthropic::error_event, bytes, 1 << 16);
    EXPECT_NE(out.find("event: error\n"), std::string::npos) << bytes.substr(0, 200);
    EXPECT_EQ(out.find("message_stop"), std::string::npos);
  }
}

TEST(ForeignErrors, AnyShapeIsRead) {
  const auto message = [](int status, const char* body) {
    const ApiError error = error_of("vllm", "/v1/x", status, body);
    return std::to_string(error.status) + " " + error.message;
  };
  EXPECT_EQ(message(400, R"({"error":{"message":"too long","type":"BadRequestError","param":null,"code":400}})"),
            "400 too long");
  EXPECT_EQ(message(400, R"({"error":"too long"})"), "400 too long");
  EXPECT_EQ(message(400, R"({"object":"error","message":"too long"})"), "400 too long");
  EXPECT_EQ(message(422, R"({"detail":[{"loc":["body"]}]})"), R"(422 [{"loc":["body"]}])");
  EXPECT_EQ(message(404, R"({"detail":"Not Found"})"), "404 /v1/x: engine vllm of the model has no such route");
  EXPECT_EQ(message(404, R"({"error":{"message":"The model does not exist"}})"), "404 The model does not exist");
  EXPECT_EQ(message(401, R"({"error":"Unauthorized"})"),
            "502 the server of the model refused the key of its launch: Unauthorized");
  EXPECT_EQ(message(501, R"({"error":{"message":"not supported"}})"), "400 not supported");
  EXPECT_EQ(message(500, "oh"), "500 oh");
  EXPECT_EQ(error_of("vllm", "/", 500, std::string(100'000, 'a')).message.size(), 4096u);
}

}  // namespace
}  // namespace quern::foreign
