// Streams that end early end in the client's own words, behind whole events only.
#include "server/door/stream_guard.h"

#include <gtest/gtest.h>

#include "server/door/worker_address.h"

namespace quern::door {
namespace {

const ApiError kError{.status = 502, .message = "gone", .type = "worker_error"};

std::string words(const ApiError& error) {
  return "data: " + error.message + "\n\n";
}

TEST(StreamGuard, WholeEventsPassAtOnce) {
  StreamGuard guard("text/event-stream; charset=utf-8");
  EXPECT_EQ(guard.push("data: a\n\n"), "data: a\n\n");
  EXPECT_EQ(guard.push("data: b\n\ndata: c\n\n"), "data: b\n\ndata: c\n\n");
  EXPECT_EQ(guard.fail(kError, words), "data: gone\n\n");
  EXPECT_EQ(guard.finish(), "");
}

TEST(StreamGuard, HalfALineIsHeldAndDroppedByAFailure) {
  StreamGuard guard("text/event-stream");
  EXPECT_EQ(guard.push("data: a\n\ndata: {\"b"), "data: a\n\n");
  EXPECT_EQ(guard.fail(kError, words), "data: gone\n\n");
  EXPECT_EQ(guard.push("\":1}\n"), "data: {\"b\":1}\n");
  EXPECT_EQ(guard.fail(kError, words), "\ndata: gone\n\n") << "the event that was begun is ended first";
  EXPECT_EQ(guard.push("\n"), "\n");
  EXPECT_EQ(guard.fail(kError, words), "data: gone\n\n");
  EXPECT_EQ(guard.push("data: rest"), "");
  EXPECT_EQ(guard.finish(), "data: rest");
}

TEST(StreamGuard, ByteForByteWhereverItIsCut) {
  const std::string stream = "event: x\r\ndata: 1\r\n\r\n: note\n\ndata: 2\ndata: 3\n\ndata: tail";
  for (size_t cut = 0; cut <= stream.size(); ++cut) {
    StreamGuard guard("text/event-stream");
    std::string got = guard.push(stream.substr(0, cut));
    got += guard.push(stream.substr(cut));
    got += guard.finish();
    EXPECT_EQ(got, stream) << cut;
  }
}

TEST(StreamGuard, LinesOfObjects) {
  StreamGuard guard("application/x-ndjson");
  EXPECT_EQ(guard.push("{\"a\":1}\n{\"b\""), "{\"a\":1}\n");
  EXPECT_EQ(guard.fail(kError, words), "data: gone\n\n");
}

TEST(StreamGuard, AnEndlessLineIsNotKept) {
  StreamGuard guard("text/event-stream");
  const std::string half(60000, 'x');
  EXPECT_EQ(guard.push(half), "");
  EXPECT_EQ(guard.push(half).size(), 120000u);
  EXPECT_EQ(guard.fail(kError, words), "\n\ndata: gone\n\n");
}

TEST(StreamGuard, OtherBytesHaveNoWords) {
  StreamGuard guard("audio/wav");
  EXPECT_EQ(guard.push("RIFF"), "RIFF");
  EXPECT_EQ(guard.fail(kError, words), "");
}

TEST(WorkerAddress, Forms) {
  using Kind = WorkerAddress::Kind;
  const auto unix_socket = parse_worker_address("unix:/run/w.sock");
  ASSERT_TRUE(unix_socket);
  EXPECT_EQ(unix_socket->kind, Kind::kUnix);
  EXPECT_EQ(unix_socket->host, "/run/w.sock");
  const auto tcp = parse_worker_address("http://127.0.0.1:4711");
  ASSERT_TRUE(tcp);
  EXPECT_EQ(tcp->host, "127.0.0.1");
  EXPECT_EQ(tcp->port, 4711);
  EXPECT_EQ(tcp->host_header, "127.0.0.1:4711");
  const auto tls = parse_worker_address("https://api.example.com/");
  ASSERT_TRUE(tls);
  EXPECT_EQ(tls->kind, Kind::kTls);
  EXPECT_EQ(tls->port, 443);
  EXPECT_EQ(tls->host_header, "api.example.com");
  const auto v6 = parse_worker_address("http://[::1]:80");
  ASSERT_TRUE(v6);
  EXPECT_EQ(v6->host, "::1");
  EXPECT_EQ(v6->host_header, "[::1]:80");
}

TEST(WorkerAddress, RefusedByName) {
  for (const char* text :
       {"", "unix:", "ftp://a", "http://", "http://a:0", "http://a:66000", "http://a:1x", "http://a/v1", "http://a b",
        "http://a\r\nX: y", "http://[::1", "http://[::1]9", "http://u@a", "http://::1"}) {
    const auto address = parse_worker_address(text);
    EXPECT_FALSE(address) << text;
    if (!address) {
      EXPECT_NE(address.error().message.find(text), std::string::npos);
    }
  }
  EXPECT_FALSE(parse_worker_address("unix:/" + std::string(200, 'a')));
}

}  // namespace
}  // namespace quern::door
