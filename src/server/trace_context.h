// W3C trace context (https://www.w3.org/TR/trace-context/), version 00: the caller's trace, for our logs and spans.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace quern {

struct TraceParent {
  std::string trace_id;  // 32 hex digits
  std::string span_id;   // 16
  bool sampled = false;  // the caller keeps a trace of it
};

// nullopt: there is none, or it is malformed; then the request counts as untraced.
std::optional<TraceParent> parse_traceparent(std::optional<std::string_view> header);

}  // namespace quern
