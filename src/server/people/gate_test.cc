// Which models a request names, as keys for certain models are held to.
#include "server/people/gate.h"

#include <gtest/gtest.h>

#include "server/people/asked_models.h"

namespace quern {
namespace {

class AskedModelsTest : public ::testing::Test {
 protected:
  AskedModelsTest() { models_.add({.id = "only"}); }

  AskedModels ask(const std::string& path, const std::string& body, const std::string& type = "application/json") {
    http::Request request;
    request.body = body;
    request.headers.emplace_back("content-type", type);
    return asked_models(models_, request, {.method = "POST", .path = path});
  }
  using Names = std::vector<std::string>;

  ModelTable models_;
};

TEST_F(AskedModelsTest, FromTheBody) {
  EXPECT_EQ(ask("/v1/chat/completions", R"({"model":"a","messages":[{"model":"inner"}]})").names, Names{"a"});
  EXPECT_EQ(ask("/v1/chat/completions", R"({"messages":[]})").names, Names{"only"});
  EXPECT_EQ(ask("/v1/chat/completions", R"({"model":"a","lora":[{"name":"b","scale":1}]})").names, (Names{"a", "b"}));
  EXPECT_EQ(ask("/v1/chat/completions", R"({"lora":[{"name":"b"}]})").names, (Names{"only", "b"}));
  EXPECT_EQ(ask("/api/show", R"({"name":"a:latest"})").names, Names{"a"});
}

// One reader takes the last of two equal keys, another the first, and a third does not know that \u006d is an m.
TEST_F(AskedModelsTest, AllThatAnyReaderCouldTake) {
  EXPECT_EQ(ask("/v1/completions", R"({"model":"a","model":"b"})").names, (Names{"a", "b"}));
  EXPECT_EQ(ask("/v1/completions", R"({"model":"a","\u006dodel":"b"})").names, (Names{"a", "b"}));
}

TEST_F(AskedModelsTest, WhatCannotBeToldIsNotKnown) {
  models_.add({.id = "second"});
  EXPECT_FALSE(ask("/v1/completions", "{}").known);
  EXPECT_FALSE(ask("/v1/completions", "not JSON").known);
  EXPECT_FALSE(ask("/v1/completions", R"(["model"])").known);
  EXPECT_FALSE(ask("/v1/completions", R"({"model":7})").known);
}

TEST_F(AskedModelsTest, FromAForm) {
  const std::string body =
      "--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nwhisper\r\n"
      "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\nbytes\r\n--x--\r\n";
  EXPECT_EQ(ask("/v1/audio/transcriptions", body, "multipart/form-data; boundary=x").names, Names{"whisper"});
}

// A worker may read what this server does not: a deep body, a type in other letters.
TEST_F(AskedModelsTest, WhatCannotBeReadNamesNotTheOnlyModel) {
  EXPECT_FALSE(
      ask("/v1/completions", "{\"x\":" + std::string(5000, '[') + std::string(5000, ']') + ",\"model\":\"a\"}").known);
  EXPECT_FALSE(ask("/v1/completions", R"({"model":"a"} x)").known);
  EXPECT_FALSE(ask("/v1/audio/transcriptions", "--x\r\nbroken", "Multipart/Form-Data; boundary=x").known);
  EXPECT_TRUE(ask("/v1/completions", "").known);
}

TEST_F(AskedModelsTest, FromThePath) {
  http::Request request;
  request.params = {"org/name"};
  const Route route{.method = "GET", .path = "/v1/models/{model*}", .scope = people::Scope::kModelsList};
  EXPECT_EQ(asked_models(models_, request, route).names, Names{"org/name"});
}

}  // namespace
}  // namespace quern
