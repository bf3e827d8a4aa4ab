#include "base/json.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace quern {
namespace {

std::string repeated(std::string_view text, size_t count) {
  std::string result;
  for (size_t i = 0; i < count; ++i) result += text;
  return result;
}

// The message of a refusal; empty when `text` was taken.
std::string refusal(std::string_view text, const JsonLimits& limits = {}) {
  const auto json = parse_json(text, "body", limits);
  return json ? "" : json.error().message;
}

void expect_refused(std::string_view text, std::string_view reason, const JsonLimits& limits = {}) {
  const std::string message = refusal(text, limits);
  EXPECT_TRUE(message.starts_with("body: ")) << message;
  EXPECT_NE(message.find(reason), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_LT(message.size(), 400u);
}

TEST(ParseJson, KeepsOrderAndKinds) {
  const auto json = parse_json(R"( {"b":[1,-2,3.5,"x",true,null],"a":{"c":{}},"e":[]} )", "body");
  ASSERT_TRUE(json) << json.error().message;
  EXPECT_EQ(dump_json(*json), R"({"b":[1,-2,3.5,"x",true,null],"a":{"c":{}},"e":[]})");
  EXPECT_TRUE((*json)["b"][0].is_number_unsigned());
  EXPECT_TRUE((*json)["b"][1].is_number_integer());
  EXPECT_EQ(dump_json(parse_json("18446744073709551615", "body").value()), "18446744073709551615");
  EXPECT_EQ(dump_json(parse_json(R"("\ud83c\udf3e\u0000")", "body").value()), "\"\xf0\x9f\x8c\xbe\\u0000\"");
}

TEST(ParseJson, TheLastOfEqualKeysWinsInThePlaceOfTheFirst) {
  const auto json = parse_json(R"({"a":1,"b":2,"a":{"x":1,"x":2},"c":3,"b":4})", "body");
  ASSERT_TRUE(json) << json.error().message;
  EXPECT_EQ(dump_json(*json), R"({"a":{"x":2},"b":4,"c":3})");
}

TEST(ParseJson, BoundsTheDepth) {
  for (const std::string_view open : {"[", "{\"a\":", "[{\"a\":"}) {
    expect_refused(repeated(open, 1'000'000), "nested deeper than 128");  // never closed
  }
  const JsonLimits limits{.depth_max = 3};
  EXPECT_EQ(refusal("[[[]]]", limits), "");
  expect_refused("[[[[]]]]", "nested deeper than 3", limits);
  EXPECT_EQ(refusal(R"({"[[[[":"{{{{","\"[[[[":1})", limits), "");
  EXPECT_EQ(refusal(repeated("[", 128) + repeated("]", 128)), "");
}

TEST(ParseJson, BoundsBytesAndValues) {
  expect_refused("[1,2,3]", "7 bytes", {.bytes_max = 6});
  EXPECT_EQ(refusal("[1,2,3]", {.bytes_max = 7}), "");
  expect_refused("[" + repeated("{},", 5'000'000) + "1]",
                 "more than 4194304 values");  // forty bytes each for three of text
  expect_refused("{" + repeated("\"\":[],", 3'000'000) + "\"\":1}", "more than 4194304 values");
}

// A search through all members for each new one would take minutes.
TEST(ParseJson, TimeIsLinearInTheMembersOfAnObject) {
  std::string text = "{";
  for (int i = 0; i < 400'000; ++i) text += "\"" + std::to_string(i) + "\":0,";
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(refusal(text + "\"0\":1}"), "");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST(ParseJson, RefusesWhatIsNotJson) {
  for (const std::string_view text :
       {"",        " ",     "{",           "[1,]",        "{\"a\"}",    "nul",          "01",
        "1 2",     "[1]]",  "{'a':1}",     "NaN",         "[Infinity]", "\"\x01\"",     "\"a",
        "// x\n1", "1e999", "\"\\ud800\"", "\"\\udc00\"", "\"\xff\"",   "\"\xc0\x80\"", "\"\xed\xa0\x80\""}) {
    expect_refused(text, "not JSON");
  }
  expect_refused(std::string_view("{}\0{", 4), "NUL");
  expect_refused(std::string_view("\0", 1), "NUL");
  expect_refused(std::string_view("\"a\0b\"", 5), "NUL");
  expect_refused("[\"" + std::string(100'000, 'a') + "\n\"]", "not JSON");  // the message quotes what it read last
}

TEST(DumpJson, ReplacesWhatIsNotUtf8) {
  EXPECT_EQ(dump_json(Json("a\xff")), "\"a\xef\xbf\xbd\"");
}

}  // namespace
}  // namespace quern
