#include "server/tracing/settings.h"

#include <charconv>

#include "base/status.h"
#include "server/http/percent.h"

namespace quern {
namespace {

constexpr int64_t kDelayMsMax = 60'000;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// "key1=value1,key2=value2", values percent-encoded, as W3C baggage writes them.
Result<TraceAttributes> read_pairs(const char* name, std::string_view text) {
  TraceAttributes pairs;
  while (!text.empty()) {
    const size_t end = std::min(text.find(','), text.size());
    const std::string_view pair = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (pair.empty()) continue;
    const size_t equals = pair.find('=');
    const std::string_view key = trimmed(pair.substr(0, equals));
    if (equals == std::string_view::npos || key.empty())
      return invalid_argument(fmt::format("{}: must be KEY=VALUE,…", name));
    std::string value = http::percent_decode(trimmed(pair.substr(equals + 1)), false);
    for (const char c : std::string(key) + value) {
      if (static_cast<unsigned char>(c) < 0x20)
        return invalid_argument(fmt::format("{}: holds control characters", name));
    }
    pairs.emplace_back(key, std::move(value));
  }
  return pairs;
}

// The first of `names` that is set, and its value.
std::pair<const char*, std::string> first_of(const Variable& variable, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (auto value = variable(name)) return {name, std::move(*value)};
  }
  return {"", ""};
}

Result<std::string> read_url(const std::string& option, const Variable& variable) {
  std::string name = "--otlp-traces-endpoint", url = option;
  if (url.empty()) {
    std::tie(name, url) = first_of(variable, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"});
    if (name == "OTEL_EXPORTER_OTLP_ENDPOINT") url += url.ends_with('/') ? "v1/traces" : "/v1/traces";
  }
  if (url.empty() || url.starts_with("http://") || url.starts_with("https://")) return url;
  return invalid_argument(fmt::format("{} {}: must be an http or https URL", name, url));
}

}  // namespace

Result<TracingSettings> read_tracing_settings(const std::string& option, const Variable& variable) {
  TracingSettings settings;
  if (variable("OTEL_SDK_DISABLED").value_or("") == "true") return settings;
  QUERN_ASSIGN(settings.url, read_url(option, variable));
  if (settings.url.empty()) return settings;
  const auto [name, text] = first_of(variable, {"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"});
  QUERN_ASSIGN(const TraceAttributes headers, read_pairs(name, text));
  for (const auto& [key, value] : headers) settings.headers.push_back(fmt::format("{}: {}", key, value));
  settings.resource.emplace_back("service.name", variable("OTEL_SERVICE_NAME").value_or("quern"));
  const std::string more = variable("OTEL_RESOURCE_ATTRIBUTES").value_or("");
  QUERN_ASSIGN(const TraceAttributes attributes, read_pairs("OTEL_RESOURCE_ATTRIBUTES", more));
  for (const auto& pair : attributes) {
    if (pair.first == "service.name" && !variable("OTEL_SERVICE_NAME")) {
      settings.resource.front() = pair;
    } else if (pair.first != "service.name") {
      settings.resource.push_back(pair);
    }
  }
  if (const auto delay = variable("OTEL_BSP_SCHEDULE_DELAY")) {
    int64_t ms = -1;
    const auto [end, error] = std::from_chars(delay->data(), delay->data() + delay->size(), ms);
    if (error != std::errc() || end != delay->data() + delay->size() || ms < 0 || ms > kDelayMsMax) {
      return invalid_argument(
          fmt::format("OTEL_BSP_SCHEDULE_DELAY {}: must be 0 to {} milliseconds", *delay, kDelayMsMax));
    }
    settings.delay = std::chrono::milliseconds(ms);
  }
  return settings;
}

}  // namespace quern
