#include <gtest/gtest.h>

#include <map>

#include "base/json.h"
#include "server/tracing/settings.h"

namespace quern {
namespace {

Variable variables(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const char* name) -> std::optional<std::string> {
    const auto place = values.find(name);
    return place == values.end() ? std::nullopt : std::optional(place->second);
  };
}

TEST(TracingSettings, TheOptionIsTheWholeUrlAndTheBaseIsNot) {
  EXPECT_EQ(read_tracing_settings("", variables({}))->url, "");
  EXPECT_EQ(read_tracing_settings("http://c:1/x", variables({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://d"}}))->url,
            "http://c:1/x");
  EXPECT_EQ(read_tracing_settings("", variables({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://d:4318/"}}))->url,
            "http://d:4318/v1/traces");
  EXPECT_EQ(read_tracing_settings("", variables({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://d"},
                                                 {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://e/t"}}))
                ->url,
            "https://e/t");
  EXPECT_EQ(read_tracing_settings("http://c", variables({{"OTEL_SDK_DISABLED", "true"}}))->url, "");
}

TEST(TracingSettings, HeadersAndAttributesAreDecoded) {
  const auto settings = read_tracing_settings(
      "http://c", variables({{"OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b, x = 1%2C2"},
                             {"OTEL_RESOURCE_ATTRIBUTES", "service.name=other,deployment.environment=dev"}}));
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->headers, (std::vector<std::string>{"api-key: a b", "x: 1,2"}));
  EXPECT_EQ(settings->resource, (TraceAttributes{{"service.name", "other"}, {"deployment.environment", "dev"}}));
}

TEST(TracingSettings, MistakesAreNamed) {
  const auto message = [](const char* option, std::map<std::string, std::string> values) {
    const auto settings = read_tracing_settings(option, variables(std::move(values)));
    return settings ? "" : settings.error().message;
  };
  EXPECT_NE(message("collector:4317", {}).find("--otlp-traces-endpoint"), std::string::npos);
  EXPECT_NE(message("", {{"OTEL_EXPORTER_OTLP_ENDPOINT", "grpc://d"}}).find("OTEL_EXPORTER_OTLP_ENDPOINT"),
            std::string::npos);
  for (const char* headers : {"nothing", "=x", "a=b%0d%0aHost: x"}) {
    EXPECT_NE(message("http://c", {{"OTEL_EXPORTER_OTLP_HEADERS", headers}}).find("OTEL_EXPORTER_OTLP_HEADERS"),
              std::string::npos)
        << headers;
  }
  EXPECT_NE(message("http://c", {{"OTEL_BSP_SCHEDULE_DELAY", "soon"}}).find("OTEL_BSP_SCHEDULE_DELAY"),
            std::string::npos);
}

TEST(TraceContext, TheLastFlagSaysWhetherTheTraceIsKept) {
  const std::string ids = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-";
  for (const auto& [flags, sampled] : {std::pair("00", false), {"01", true}, {"0a", false}, {"ff", true}}) {
    EXPECT_EQ(parse_traceparent(ids + flags)->sampled, sampled) << flags;
  }
}

TEST(Otlp, ASpanWithoutAModelHasNoUsage) {
  std::vector<RequestSpan> spans;
  spans.emplace_back("POST", "/v1/embeddings", std::nullopt).finish({.status = 503});
  const auto body = parse_json(otlp_body({{"service.name", "q"}}, spans), "body");
  ASSERT_TRUE(body);
  const Json& span = (*body)["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
  EXPECT_FALSE(span.contains("parentSpanId"));
  EXPECT_EQ(span["status"]["code"], 2);
  EXPECT_EQ(dump_json(span).find("gen_ai.usage"), std::string::npos);
  EXPECT_EQ(span["traceId"].get<std::string>().size(), 32u);
}

}  // namespace
}  // namespace quern
