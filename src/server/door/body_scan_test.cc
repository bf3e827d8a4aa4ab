// The scanner against the JSON reader: it must find the same name, whatever stands around it.
#include "server/door/body_scan.h"

#include <gtest/gtest.h>

#include <chrono>

#include "base/json.h"

namespace quern::door {
namespace {

std::string model_of(std::string_view json) {
  const auto scan = scan_body(json);
  return scan ? scan->model : "";
}

TEST(BodyScan, FindsTheNameAtTheTopLevelOnly) {
  EXPECT_EQ(model_of(R"({"model":"a"})"), "a");
  EXPECT_EQ(model_of(" \n{ \"x\" : [1, {\"model\":\"no\"}, \"]}\"] ,\t\"model\" : \"a\" } "), "a");
  EXPECT_EQ(model_of(R"({"messages":[{"model":"no","content":"\"model\":\"no\"\\"}],"model":"a"})"), "a");
  EXPECT_EQ(model_of(R"({"model":"a","tools":{"model":{"model":"no"}}})"), "a");
  EXPECT_EQ(model_of(R"({"x":"ends in a backslash \\","model":"a"})"), "a");
  EXPECT_EQ(model_of(R"({"x":-1.5e3,"y":null,"z":true,"model":"a"})"), "a");
}

TEST(BodyScan, ReadsEscapesOfNamesAndKeys) {
  EXPECT_EQ(model_of(R"({"model":"a\u002fb\"c"})"), "a/b\"c");
  EXPECT_EQ(model_of(R"({"mod\u0065l":"a"})"), "a");
  EXPECT_EQ(model_of("{\"model\":\"\xe6\xa8\xa1\xe5\x9e\x8b\"}"), "\xe6\xa8\xa1\xe5\x9e\x8b");
}

TEST(BodyScan, TheLastOfTwoCountsAsForTheReader) {
  const std::string text = R"({"model":"a","model":"b"})";
  EXPECT_EQ(model_of(text), "b");
  EXPECT_EQ((*parse_json(text, "body"))["model"], "b");
}

TEST(BodyScan, OllamasOtherField) {
  EXPECT_EQ(model_of(R"({"name":"a"})"), "a");
  EXPECT_EQ(model_of(R"({"name":"a","model":"b"})"), "b");
  EXPECT_EQ(model_of(R"({"name":"a","model":null})"), "a");
}

TEST(BodyScan, WhatNamesNoModel) {
  for (const char* text : {"", "[]", "\"model\"", "{", "{}", R"({"model":1})", R"({"model":""})", R"({"model":null})",
                           R"({"model":"a")", R"({"model":"a)", R"({"model")", R"({"model":})", R"({model:"a"})",
                           R"({"x":[[[,"model":"a"})", R"({"x":"\","model":"a"})", R"({"model":"\ud800"})"}) {
    EXPECT_FALSE(scan_body(text)) << text;
  }
  EXPECT_FALSE(scan_body("{\"model\":\"" + std::string(5000, 'a') + "\"}"));
}

TEST(BodyScan, EveryCutIsRefusedOrFindsTheName) {
  const std::string text = R"({"messages":[{"content":"a \"b\" \\"}],"user":"u","model":"m","stream":true})";
  for (size_t size = 0; size < text.size(); ++size) EXPECT_FALSE(scan_body(text.substr(0, size))) << size;
  const auto scan = scan_body(text);
  ASSERT_TRUE(scan);
  EXPECT_EQ(scan->model_value, "\"m\"");
  EXPECT_TRUE(scan->stream);
}

TEST(BodyScan, Sessions) {
  const auto session = [](std::string_view json) { return scan_body(json)->session; };
  EXPECT_EQ(session(R"({"model":"m"})"), 0u);
  EXPECT_NE(session(R"({"model":"m","user":"u"})"), 0u);
  EXPECT_EQ(session(R"({"model":"m","user":"u"})"), session(R"({"user":"u","model":"m","seed":1})"));
  EXPECT_NE(session(R"({"model":"m","user":"u"})"), session(R"({"model":"m","user":"v"})"));
  EXPECT_EQ(session(R"({"model":"m","user":"u","prompt_cache_key":"k"})"),
            session(R"({"model":"m","prompt_cache_key":"k"})"));
  EXPECT_EQ(session(R"({"model":"m","user":7})"), 0u);
}

std::string chat(const std::string& messages, const std::string& more = "") {
  return "{\"model\":\"m\"" + more + ",\"messages\":[" + messages + "]}";
}

std::string turn(const std::string& role, size_t size, char fill) {
  return "{\"role\":\"" + role + "\",\"content\":\"" + std::string(size, fill) + "\"}";
}

TEST(BodyScan, ALongerConversationSharesThePrefixOfItsBeginning) {
  const std::string first = turn("system", 2000, 's') + "," + turn("user", 500, 'u');
  const auto before = scan_body(chat(first))->prefix;
  const auto after = scan_body(chat(first + "," + turn("assistant", 900, 'a'), ",\"seed\":3"))->prefix;
  ASSERT_EQ(before.size(), (first.size() + 2) / kPrefixPieceBytes);
  ASSERT_GT(after.size(), before.size());
  EXPECT_TRUE(std::equal(before.begin(), before.end() - 1, after.begin()));
  const auto other = scan_body(chat(turn("system", 2000, 'x')))->prefix;
  EXPECT_NE(other.front(), before.front());
  const std::string tools = ",\"tools\":[\"" + std::string(400, 't') + "\"]";
  EXPECT_NE(scan_body(chat(first, tools))->prefix.at(1), before.front());
}

TEST(BodyScan, PrefixesAreBounded) {
  EXPECT_TRUE(scan_body(chat(turn("user", 10, 'u')))->prefix.empty());
  EXPECT_EQ(scan_body(chat(turn("user", 1u << 20, 'u')))->prefix.size(), kPrefixPiecesMax);
  EXPECT_FALSE(scan_body("{\"model\":\"m\",\"prompt\":\"" + std::string(600, 'p') + "\"}")->prefix.empty());
  EXPECT_FALSE(scan_body("{\"model\":\"m\",\"input\":\"" + std::string(600, 'p') + "\"}")->prefix.empty());
}

std::string field(const std::string& name, const std::string& value, const std::string& more = "") {
  return "--b\r\nContent-Disposition: form-data; name=\"" + name + "\"" + more + "\r\n\r\n" + value + "\r\n";
}

Result<std::optional<BodyScan>> form(const std::string& parts) {
  static std::string text;  // views of the answer lie in it
  text = parts + "--b--\r\n";
  return scan_form("Multipart/Form-Data; boundary=\"b\"", text);
}

TEST(BodyScan, FormsByTheirModel) {
  const std::string audio = field("file", std::string("R\0\r\n--model\r\n--", 17), "; filename=\"model\"");
  const auto scan = form(audio + field("model", "whisper-1") + field("language", "en"));
  ASSERT_TRUE(scan && *scan);
  EXPECT_EQ((*scan)->model, "whisper-1");
  EXPECT_EQ((*scan)->model_value, "whisper-1");
  EXPECT_TRUE((*scan)->is_form);
  const auto none = form(audio);
  EXPECT_TRUE(none && !*none);
}

TEST(BodyScan, HostileFormsAreRefusedByName) {
  const auto refusal = [](const std::string& parts) {
    const auto scan = form(parts);
    return scan ? std::string("none") : scan.error().message;
  };
  EXPECT_EQ(refusal(field("model", "a") + field("model", "b")), "model: is in the form twice");
  EXPECT_EQ(refusal(field("model", "a", "; filename=\"f\"")), "model: is a file");
  EXPECT_EQ(refusal(field("model", "")), "model: 0 bytes, must be 1 to 1024");
  EXPECT_EQ(refusal(field("model", std::string(5000, 'a'))), "model: 5000 bytes, must be 1 to 1024");
  EXPECT_EQ(refusal(field("model", "a\r\nb")), "model: has control characters");
  std::string many;
  for (int i = 0; i < 100; ++i) many += field("x", "y");
  EXPECT_EQ(refusal(many), "multipart body: over 64 parts");
  EXPECT_EQ(refusal("preamble" + field("model", "a")), "multipart body: does not begin with its boundary");
  const std::string whole = field("model", "a") + "--b--\r\n";
  for (size_t size = 0; size < whole.size() - 4; ++size) {
    EXPECT_FALSE(scan_form("multipart/form-data; boundary=b", whole.substr(0, size))) << size;
  }
  EXPECT_FALSE(scan_form("multipart/form-data", whole));
  EXPECT_FALSE(scan_form("multipart/form-data; boundary=" + std::string(100, 'b'), whole));
}

// A scan that looks at a byte more than a few times would take minutes for these.
TEST(BodyScan, HostileBodiesTakeLinearTime) {
  constexpr size_t kSize = 16u << 20;
  std::string backslashes = "{\"x\":\"";
  while (backslashes.size() < kSize) backslashes += "\\\\\\\"";
  EXPECT_FALSE(scan_body(backslashes));
  EXPECT_FALSE(scan_body("{\"x\":\"" + std::string(kSize, '\\')));
  EXPECT_FALSE(scan_body("{\"x\":" + std::string(kSize, '[')));
  std::string delimiters = field("model", "a") + "--b\r\n";
  while (delimiters.size() < kSize) delimiters += "\r\n--c\r\r\n--";
  EXPECT_FALSE(scan_form("multipart/form-data; boundary=b", delimiters));
  EXPECT_EQ(model_of("{\"x\":" + std::string(kSize, '[') + std::string(kSize, ']') + ",\"model\":\"m\"}"), "m");
}

}  // namespace
}  // namespace quern::door
