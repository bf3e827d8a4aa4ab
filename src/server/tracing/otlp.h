// Spans as OTLP's JSON (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding): ids as hex digits, 64-bit
// numbers as text, keys in lowerCamelCase.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "server/tracing/request_span.h"

namespace quern {

using TraceAttributes = std::vector<std::pair<std::string, std::string>>;

// An ExportTraceServiceRequest. `resource`: what tells this service from others, service.name first.
std::string otlp_body(const TraceAttributes& resource, std::span<const RequestSpan> spans);

}  // namespace quern
