// The route table and the description of the API say the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "server/app.h"
#include "server/page.h"

namespace quern {
namespace {

class RoutesTest : public ::testing::Test {
 protected:
  RoutesTest() : log_(LogFormat::kText, LogLevel::kError) {
    auto app = App::create(models_, metrics_, log_, {.store_path = ":memory:"});
    app_ = std::move(*app);
  }

  ModelTable models_;
  Metrics metrics_;
  Log log_;
  std::unique_ptr<App> app_;
};

std::string described(const Route& route) {
  std::string path = route.path, method = route.method;
  std::erase(path, '*');
  std::ranges::transform(method, method.begin(), [](unsigned char c) { return std::tolower(c); });
  return method + " " + path;
}

TEST_F(RoutesTest, OpenApiDescribesEveryRouteAndNoOther) {
  std::set<std::string> served, told;
  for (const Route& route : app_->routes()) EXPECT_TRUE(served.insert(described(route)).second) << described(route);
  const auto document = parse_json(openapi_json(), "openapi.json");
  ASSERT_TRUE(document);
  EXPECT_TRUE((*document)["openapi"].get<std::string>().starts_with("3.1."));
  for (const auto& path : (*document)["paths"].items()) {
    for (const auto& method : path.value().items()) told.insert(method.key() + " " + path.key());
  }
  EXPECT_EQ(served, told);
}

TEST_F(RoutesTest, OnlyLivenessAndPagesAreOpen) {
  std::set<std::string> open;
  for (const Route& route : app_->routes()) {
    if (route.access != Access::kKey) open.insert(described(route));
  }
  EXPECT_EQ(open,
            (std::set<std::string>{"get /", "get /docs", "get /health", "get /ping", "get /ready", "get /setup"}));
}

TEST(MatchPath, TakesParts) {
  const auto none = match_path("/v1/files", "/v1/files");
  ASSERT_TRUE(none);
  EXPECT_TRUE(none->empty());
  EXPECT_FALSE(match_path("/v1/files", "/v1/files/"));
  EXPECT_EQ(*match_path("/v1/files/{id}", "/v1/files/a"), std::vector<std::string>{"a"});
  EXPECT_FALSE(match_path("/v1/files/{id}", "/v1/files/"));
  EXPECT_FALSE(match_path("/v1/files/{id}", "/v1/files/a/content"));
  EXPECT_EQ(*match_path("/v1/files/{id}/content", "/v1/files/a/content"), std::vector<std::string>{"a"});
  EXPECT_EQ(*match_path("/v1/models/{model*}", "/v1/models/org/name"), std::vector<std::string>{"org/name"});
  EXPECT_FALSE(match_path("/v1/models/{model*}", "/v1/models/"));
}

}  // namespace
}  // namespace quern
