#include "platform/fleet/router.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace quern {
namespace {

using Outcome = Lease::Outcome;

RouteTarget target(const std::string& replica) {
  return {.replica = replica, .address = "unix:/" + replica};
}

Router with_replicas(int count) {
  Router router;
  router.set_model("m", 0);
  for (int i = 0; i < count; ++i) router.set_ready("m", target("m-" + std::to_string(i)), static_cast<uint64_t>(i + 1));
  return router;
}

std::string picked(Router& router, RouteRequest request, int64_t now_ms = 0) {
  request.uid = "m";
  const auto pick = router.pick(request, 100, now_ms);
  return pick ? pick->target.replica : "";
}

TEST(Router, TheLeastLoadedGetsIt) {
  Router router = with_replicas(3);
  std::set<std::string> names;
  for (int i = 0; i < 3; ++i) names.insert(picked(router, {}));
  EXPECT_EQ(names.size(), 3u);
  router.finish("m", "m-1", 2, Outcome::kOk, 0);
  EXPECT_EQ(picked(router, {}), "m-1");
}

TEST(Router, APromptGoesWhereItsBeginningIs) {
  Router router = with_replicas(2);
  const std::string first = picked(router, {.prefix = {1, 2, 3}});
  EXPECT_EQ(picked(router, {.prefix = {1, 2, 9}}), first);
  EXPECT_NE(picked(router, {.prefix = {5}}), first);
  // Not when it has markedly more to do.
  for (int i = 0; i < 20; ++i) picked(router, {.prefix = {1, 2, 3}});
  EXPECT_LT(router.load("m", first).in_flight, 16);
}

TEST(Router, ASessionStays) {
  Router router = with_replicas(3);
  const std::string first = picked(router, {.session = 7});
  for (int i = 0; i < 10; ++i) EXPECT_EQ(picked(router, {.session = 7}), first);
  router.set_gone("m", first);
  const std::string second = picked(router, {.session = 7});
  EXPECT_NE(second, first);
  EXPECT_EQ(picked(router, {.session = 7}), second);
}

TEST(Router, AdaptersAreNames) {
  Router router;
  router.set_model("m", 0, {"sql", "m2"});
  router.set_model("n:x", 0, {"sql", "a:b"});
  router.set_model("m2", 0);
  const auto meaning = [&](const std::string& name) {
    const auto meant = router.resolve(name);
    return meant ? meant->uid + "|" + meant->adapter : "";
  };
  EXPECT_EQ(meaning("m"), "m|");
  EXPECT_EQ(meaning("m2"), "m2|") << "a model's own name comes first";
  EXPECT_EQ(meaning("m:m2"), "m|m2");
  EXPECT_EQ(meaning("sql"), "m|sql");
  EXPECT_EQ(meaning("n:x:sql"), "n:x|sql");
  EXPECT_EQ(meaning("n:x:a:b"), "n:x|a:b");
  for (const char* unknown : {"m:a:b", "nobody", ":sql", "m:", "sql:m"}) EXPECT_EQ(meaning(unknown), "") << unknown;
  router.set_model("m", 0, {"m2"});
  EXPECT_EQ(meaning("sql"), "n:x|sql");
  router.close_model("n:x");
  EXPECT_EQ(meaning("sql"), "");
  router.remove_model("n:x");
  EXPECT_EQ(meaning("a:b"), "");
}

TEST(Router, AnAdapterGoesWhereItIsLoaded) {
  Router router = with_replicas(1);
  router.set_model("m", 0, {"sql"});
  EXPECT_EQ(picked(router, {.adapter = "sql"}), "") << "the replica that runs was started without it";
  RouteTarget with = target("m-1");
  with.adapters = std::make_shared<AdapterCalls>(AdapterCalls{{"sql", {.model = "m:sql", .fields = "\"f\":1"}}});
  router.set_ready("m", with, 9);
  const auto pick = router.pick({.uid = "m", .adapter = "sql"}, 100, 0);
  ASSERT_TRUE(pick);
  EXPECT_EQ(pick->target.replica, "m-1");
  EXPECT_EQ(pick->target.model, "m:sql");
  EXPECT_EQ(pick->target.fields, "\"f\":1");
}

TEST(Router, TriedReplicasAreLeftOutUntilTheyAreOthers) {
  Router router = with_replicas(2);
  EXPECT_EQ(picked(router, {.tried = {"m-0"}}), "m-1");
  EXPECT_EQ(picked(router, {.tried = {"m-0", "m-1"}}), "");
  router.set_ready("m", target("m-0"), 101);
  EXPECT_EQ(picked(router, {.tried = {"m-0", "m-1"}}), "m-0");
}

TEST(Router, ACircuitOpensAndOneRequestTriesIt) {
  Router router = with_replicas(1);
  for (int i = 0; i < Router::kFailuresMax; ++i) {
    ASSERT_EQ(picked(router, {}), "m-0");
    router.finish("m", "m-0", 1, Outcome::kRefused, 0);
  }
  EXPECT_EQ(picked(router, {}, 999), "");
  EXPECT_EQ(picked(router, {}, 1000), "m-0");
  EXPECT_EQ(picked(router, {}, 1000), "") << "one request is on trial";
  router.finish("m", "m-0", 1, Outcome::kBroken, 1000);
  EXPECT_EQ(picked(router, {}, 2999), "") << "twice as long";
  EXPECT_EQ(picked(router, {}, 3000), "m-0");
  router.finish("m", "m-0", 1, Outcome::kOk, 3000);
  EXPECT_EQ(picked(router, {}, 3000), "m-0");
  EXPECT_EQ(picked(router, {}, 3000), "m-0");
}

TEST(Router, TheLimitCountsWhoIsInside) {
  Router router = with_replicas(2);
  router.set_model("m", 2);
  EXPECT_TRUE(router.admit("m"));
  EXPECT_TRUE(router.admit("m"));
  EXPECT_FALSE(router.admit("m"));
  router.leave("m", 5);
  EXPECT_TRUE(router.admit("m"));
  EXPECT_EQ(router.last_used_ms("m"), 5);
  EXPECT_FALSE(router.admit("other"));
}

// A cache as a replica has one: pieces of prompts, the one not used longest goes.
struct Cache {
  RecentMap<char> pieces{2000};
  int64_t hits = 0, asked = 0;

  void serve(const std::vector<uint64_t>& prefix) {
    size_t known = 0;
    while (known < prefix.size() && pieces.contains(prefix[known])) ++known;
    hits += static_cast<int64_t>(known);
    asked += static_cast<int64_t>(prefix.size());
    for (size_t i = prefix.size(); i > 0; --i) pieces.put(prefix[i - 1], 0);
  }
};

// Conversations of several system prompts, a dozen at once; each turn begins with the turns before it.
double hit_rate(int num_replicas, uint64_t seed) {
  std::mt19937_64 random(seed);
  Router router = with_replicas(num_replicas);
  std::vector<Cache> caches(static_cast<size_t>(num_replicas));
  struct Running {
    std::string replica;
    uint64_t life;
  };
  std::vector<Running> running;
  std::vector<std::vector<uint64_t>> talks(40);
  for (auto& talk : talks) {
    const uint64_t system = random() % 6 + 1;
    for (uint64_t i = 0; i < 16; ++i) talk.push_back(system * 1000 + i);
  }
  for (int turn = 0; turn < 6000; ++turn) {
    auto& talk = talks[random() % talks.size()];
    if (talk.size() > 60) talk.resize(16);
    for (int i = 0; i < 3; ++i) talk.push_back(random() | (uint64_t{1} << 63));
    const auto pick = router.pick({.uid = "m", .prefix = talk}, 100, turn);
    EXPECT_TRUE(pick);
    caches[pick->life - 1].serve(talk);
    running.push_back({pick->target.replica, pick->life});
    if (running.size() <= 12) continue;
    const size_t done = random() % running.size();
    router.finish("m", running[done].replica, running[done].life, Outcome::kOk, turn);
    running.erase(running.begin() + static_cast<std::ptrdiff_t>(done));
  }
  double hits = 0, asked = 0, least = 1e18;
  for (const Cache& cache : caches) {
    hits += static_cast<double>(cache.hits);
    asked += static_cast<double>(cache.asked);
    least = std::min(least, static_cast<double>(cache.asked));
  }
  EXPECT_GT(least, 0.1 * asked) << "every replica has work, seed " << seed;
  return hits / asked;
}

TEST(Router, TwoReplicasHitAlmostAsOftenAsOne) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const double one = hit_rate(1, seed), two = hit_rate(2, seed);
    EXPECT_GT(one, 0.5);
    EXPECT_GE(two, 0.9 * one) << "seed " << seed;
  }
}

}  // namespace
}  // namespace quern
