// Where spans go, by the option and by the variables that OpenTelemetry's own exporters read.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "quern/status.h"
#include "server/tracing/otlp.h"

namespace quern {

struct TracingSettings {
  std::string url;                   // empty: no tracing
  std::vector<std::string> headers;  // "Name: value"
  TraceAttributes resource;
  std::chrono::milliseconds delay{1000};  // how long a span waits for others to go with
};

using Variable = std::function<std::optional<std::string>(const char* name)>;

// `option` is the whole URL, as is OTEL_EXPORTER_OTLP_TRACES_ENDPOINT; OTEL_EXPORTER_OTLP_ENDPOINT is its base. Errors
// name the option or the variable.
Result<TracingSettings> read_tracing_settings(const std::string& option, const Variable& variable);

}  // namespace quern
