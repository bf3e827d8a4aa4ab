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

TEST_F(RoutesTest, OnlyLivenessPagesAndSigningInAreOpen) {
  std::set<std::string> open;
  for (const Route& route : app_->routes()) {
    if (route.access != Access::kKey) open.insert(described(route));
  }
  EXPECT_EQ(open, (std::set<std::string>{"get /", "get /docs", "get /health", "get /ping", "get /ready", "get /setup",
                                         "get /v1/cluster/auth", "get /v1/admin/setup/status", "post /v1/admin/setup",
                                         "post /token", "post /v1/auth/refresh", "get /api/oidc/authorize",
                                         "get /api/oidc/callback",
                                         // The machine's own key, which its route looks at.
                                         "post /v1/nodes/{name}/heartbeat"}));
}

// A new route gets the scope of inference unless it says another: that must be meant, so it is said here too.
TEST_F(RoutesTest, WhatInferenceMayDoIsListed) {
  std::set<std::string> inference;
  for (const Route& route : app_->routes()) {
    if (route.access == Access::kKey && route.scope == people::Scope::kModelsRead) inference.insert(described(route));
  }
  EXPECT_EQ(inference, (std::set<std::string>{"post /v1/chat/completions",
                                              "post /v1/completions",
                                              "post /v1/embeddings",
                                              "post /score",
                                              "post /v1/score",
                                              "post /classify",
                                              "post /v1/classify",
                                              "post /tokenize",
                                              "post /v1/tokenize",
                                              "post /detokenize",
                                              "post /v1/detokenize",
                                              "post /rerank",
                                              "post /v1/rerank",
                                              "post /v2/rerank",
                                              "post /v1/messages",
                                              "post /v1/messages/count_tokens",
                                              "post /api/chat",
                                              "post /api/generate",
                                              "post /api/embed",
                                              "post /api/embeddings",
                                              "post /api/show",
                                              "post /v1/responses",
                                              "get /v1/responses/{response_id}",
                                              "delete /v1/responses/{response_id}",
                                              "post /v1/responses/{response_id}/cancel",
                                              "get /v1/responses/{response_id}/input_items",
                                              "post /v1/convert_ids_to_tokens",
                                              "post /v1/images/generations",
                                              "post /v1/images/variations",
                                              "post /v1/images/edits",
                                              "post /v1/images/inpainting",
                                              "post /v1/images/ocr",
                                              "post /v1/audio/transcriptions",
                                              "post /v1/audio/translations",
                                              "post /v1/audio/speech",
                                              "post /v1/audio/embeddings",
                                              "post /v1/video/generations",
                                              "post /v1/video/generations/image",
                                              "post /v1/video/generations/flf",
                                              "post /v1/flexible/infers"}));
}

// What anybody who is known at all may do: nothing that shows another's or changes anything but one's own.
TEST_F(RoutesTest, WhatEverybodyMayDoIsListed) {
  std::set<std::string> everybody;
  for (const Route& route : app_->routes()) {
    if (route.access == Access::kKey && route.scope == people::Scope::kSignedIn) everybody.insert(described(route));
  }
  EXPECT_EQ(everybody,
            (std::set<std::string>{"get /openapi.json", "get /version", "get /api/version", "post /v1/auth/logout",
                                   "post /v1/auth/password", "get /v1/auth/me", "get /status", "get /v1/address",
                                   "get /v1/cluster/version", "get /v1/supervisor"}));
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
  EXPECT_EQ(*match_path("/v1/models/{uid*}/events", "/v1/models/org/name/events"),
            std::vector<std::string>{"org/name"});
  EXPECT_FALSE(match_path("/v1/models/{uid*}/events", "/v1/models/org/events/name"));
  EXPECT_FALSE(match_path("/v1/models/{uid*}/events", "/v1/models/events"));
  EXPECT_FALSE(match_path("/v1/models/{uid*}/events", "/v1/models//events"));
  EXPECT_EQ(*match_path("/m/{uid*}/replicas/{id}", "/m/a/replicas/b/replicas/2"),
            (std::vector<std::string>{"a/replicas/b", "2"}));
  EXPECT_FALSE(match_path("/m/{uid*}/replicas/{id}", "/m/a/replicas/"));
}

}  // namespace
}  // namespace quern
