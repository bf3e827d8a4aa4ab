// Small parts of the server that need no socket: keys, trace context, multipart bodies.
#include <gtest/gtest.h>

#include "server/generation.h"
#include "server/http/multipart.h"
#include "server/keys.h"
#include "server/trace_context.h"

namespace quern {
namespace {

http::Request with_header(std::string name, std::string value) {
  http::Request request;
  request.headers.emplace_back(std::move(name), std::move(value));
  return request;
}

TEST(KeySet, PlainAndHashed) {
  KeySet keys;
  ASSERT_TRUE(keys.add("plain"));
  // SHA-256 of "hidden", from FIPS 180-4 as sha256sum computes it.
  ASSERT_TRUE(keys.add("sha256:e564b4081d7a9ea4b00dada53bdae70c99b87b6fce869f0c3dd4d2bfa1e53e1c"));
  EXPECT_TRUE(keys.fits(with_header("authorization", "Bearer plain")));
  EXPECT_TRUE(keys.fits(with_header("authorization", "bearer hidden")));
  EXPECT_TRUE(keys.fits(with_header("x-api-key", "hidden")));
  EXPECT_FALSE(keys.fits(with_header("authorization", "plain")));
  EXPECT_FALSE(keys.fits(with_header("authorization", "Bearer plai")));
  EXPECT_FALSE(keys.fits(with_header("authorization", "Bearer ")));
  EXPECT_FALSE(keys.fits({}));
  EXPECT_FALSE(keys.add("sha256:12"));
  EXPECT_FALSE(keys.add("sha256:" + std::string(64, 'x')));
}

TEST(KeySet, OneKeyIsOneTenantHoweverItIsSent) {
  const auto origin = [](const http::Request& from) {
    Request request;
    set_origin(request, from);
    return request;
  };
  const uint64_t tenant = origin(with_header("authorization", "Bearer plain")).tenant;
  EXPECT_EQ(origin(with_header("x-api-key", "plain")).tenant, tenant);
  EXPECT_NE(origin(with_header("x-api-key", "other")).tenant, tenant);
  EXPECT_EQ(origin(with_header("authorization", "Basic plain")).tenant, origin({}).tenant);
  EXPECT_NE(origin({}).tenant, tenant);
  http::Request batch;
  batch.background = true;
  EXPECT_TRUE(origin(batch).background);
  EXPECT_FALSE(origin({}).background);
}

TEST(Origin, AFrontDoorsWordCountsOnAUnixSocketOnly) {
  const auto origin = [](const char* name, const char* value, const char* peer) {
    Request request;
    http::Request from = with_header(name, value);
    from.peer = peer;
    set_origin(request, from);
    return request;
  };
  EXPECT_NE(origin("x-quern-tenant", "a", "").tenant, origin("x-quern-tenant", "b", "").tenant);
  EXPECT_EQ(origin("x-quern-tenant", "a", "127.0.0.1").tenant, 0u);
  EXPECT_TRUE(origin("x-quern-background", "1", "").background);
  EXPECT_FALSE(origin("x-quern-background", "1", "127.0.0.1").background);
}

TEST(TraceParent, AcceptsTheStandardsExampleAndNothingBroken) {
  const std::string trace = "4bf92f3577b34da6a3ce929d0e0e4736", span = "00f067aa0ba902b7";
  const auto parsed = parse_traceparent("00-" + trace + "-" + span + "-01");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->trace_id, trace);
  EXPECT_EQ(parsed->span_id, span);
  EXPECT_TRUE(parse_traceparent("01-" + trace + "-" + span + "-01-more"));
  for (const std::string& bad :
       {std::string(), "ff-" + trace + "-" + span + "-01", "00-" + trace + "-" + span + "-01-more",
        "00-" + std::string(32, '0') + "-" + span + "-01", "00-" + trace + "-" + std::string(16, '0') + "-01",
        "00-" + trace + "-" + span + "-0", "00_" + trace + "-" + span + "-01", "00-" + trace + "-" + span + "-zz"}) {
    EXPECT_FALSE(parse_traceparent(bad)) << bad;
  }
  EXPECT_FALSE(parse_traceparent(std::nullopt));
}

constexpr std::string_view kForm =
    "--b\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n"
    "--b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a \\\"b\\\".jsonl\"\r\n"
    "Content-Type: text/plain\r\n\r\nline\r\n--\r\n--b--\r\n";

TEST(Multipart, PartsAndTheirHeaders) {
  const auto parts = http::parse_multipart("multipart/form-data; boundary=b", kForm);
  ASSERT_TRUE(parts) << parts.error().message;
  ASSERT_EQ(parts->size(), 2u);
  EXPECT_EQ((*parts)[0].name, "purpose");
  EXPECT_EQ((*parts)[0].body, "batch");
  EXPECT_EQ((*parts)[1].filename, "a \"b\".jsonl");
  EXPECT_EQ((*parts)[1].content_type, "text/plain");
}

TEST(Multipart, BrokenBodiesAreRefused) {
  for (size_t length = 0; length + 4 < kForm.size(); ++length) {
    EXPECT_FALSE(http::parse_multipart("multipart/form-data; boundary=b", kForm.substr(0, length))) << length;
  }
  EXPECT_FALSE(http::parse_multipart("multipart/form-data", kForm));
  EXPECT_FALSE(http::parse_multipart("application/json", kForm));
  EXPECT_FALSE(http::parse_multipart("multipart/form-data; boundary=c", kForm));
  EXPECT_FALSE(http::parse_multipart("multipart/form-data; boundary=b", kForm, 1));
}

}  // namespace
}  // namespace quern
