// W3C trace context (https://www.w3.org/TR/trace-context/), version 00: the caller's trace, for our logs.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace quern {

struct TraceParent {
  std::string trace_id;  // 32 hex digits
  std::string span_id;   // 16
};

// nullopt: there is none, or it is malformed; then the request counts as untraced.
std::optional<TraceParent> parse_traceparent(std::optional<std::string_view> header);

}  // namespace quern
