#include "server/trace_context.h"

#include <algorithm>

namespace quern {
namespace {

bool is_lower_hex(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_zero(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c == '0'; });
}

}  // namespace

// VV-TTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTT-SSSSSSSSSSSSSSSS-FF; a later version may go on behind another dash.
std::optional<TraceParent> parse_traceparent(std::optional<std::string_view> header) {
  constexpr size_t kSize = 55;
  if (!header || header->size() < kSize) return std::nullopt;
  const std::string_view version = header->substr(0, 2), trace = header->substr(3, 32), span = header->substr(36, 16),
                         flags = header->substr(53, 2);
  if ((*header)[2] != '-' || (*header)[35] != '-' || (*header)[52] != '-') return std::nullopt;
  if (!is_lower_hex(version) || !is_lower_hex(trace) || !is_lower_hex(span) || !is_lower_hex(flags))
    return std::nullopt;
  if (version == "ff" || is_zero(trace) || is_zero(span)) return std::nullopt;
  if (header->size() > kSize && (version == "00" || (*header)[kSize] != '-')) return std::nullopt;
  const char last = flags[1];
  const int bits = last <= '9' ? last - '0' : last - 'a' + 10;
  return TraceParent{.trace_id = std::string(trace), .span_id = std::string(span), .sampled = (bits & 1) != 0};
}

}  // namespace quern
