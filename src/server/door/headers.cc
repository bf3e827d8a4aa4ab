#include "server/door/headers.h"

#include <algorithm>

#include "fmt/format.h"
#include "server/http/percent.h"
#include "server/keys.h"
#include "server/tracing/request_span.h"

namespace quern::door {
namespace {

constexpr std::string_view kToWorker[] = {"content-type", "accept", "tracestate", "anthropic-version",
                                          "anthropic-beta"};
constexpr std::string_view kToClient[] = {"retry-after",
                                          "content-disposition",
                                          "content-encoding",
                                          "content-language",
                                          "request-id",
                                          "openai-processing-ms",
                                          "openai-model",
                                          "x-ratelimit-limit-requests",
                                          "x-ratelimit-remaining-requests",
                                          "x-ratelimit-reset-requests"};

bool is_safe(std::string_view value) {
  return std::ranges::none_of(value, [](unsigned char c) { return (c < 0x20 && c != '\t') || c == 0x7f; });
}

}  // namespace

http::Headers headers_for_worker(const http::Request& request, const http::Reply& reply, const Lease& lease) {
  http::Headers headers;
  for (const std::string_view name : kToWorker) {
    if (const auto value = request.header(name); value && is_safe(*value)) headers.emplace_back(name, *value);
  }
  headers.emplace_back("X-Request-Id", request.id);
  const auto parent = request.header("traceparent");
  if (const auto* span = reply.span()) {
    headers.emplace_back("traceparent", span->traceparent());
  } else if (parent && is_safe(*parent)) {
    headers.emplace_back("traceparent", *parent);
  }
  if (!lease.api_key().empty()) headers.emplace_back("Authorization", "Bearer " + lease.api_key());
  if (lease.engine() != "quern") return headers;
  if (const auto key = key_of(request)) {
    headers.emplace_back("X-Quern-Tenant", fmt::format("{:016x}", std::hash<std::string_view>{}(*key)));
  }
  if (request.background) headers.emplace_back("X-Quern-Background", "1");
  return headers;
}

http::Headers headers_for_client(const AnswerHead& head) {
  http::Headers headers;
  for (const std::string_view name : kToClient) {
    if (const std::string_view value = head.header(name); !value.empty() && is_safe(value)) {
      headers.emplace_back(name, value);
    }
  }
  return headers;
}

std::string content_type_of(const AnswerHead& head) {
  const std::string_view type = head.header("content-type");
  return type.empty() || !is_safe(type) ? "application/octet-stream" : std::string(type);
}

std::string target_of(const http::Request& request) {
  std::string target = http::percent_encode(request.path);
  char mark = '?';
  for (const auto& [name, value] : request.query) {
    target += mark + http::percent_encode(name) + "=" + http::percent_encode(value);
    mark = '&';
  }
  return target;
}

}  // namespace quern::door
