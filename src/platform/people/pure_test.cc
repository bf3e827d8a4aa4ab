// People's pure parts: decisions, patterns, hashes, tokens, bans, quotas, addresses.
#include <gtest/gtest.h>

#include "platform/people/addresses.h"
#include "platform/people/failures.h"
#include "platform/people/jwt.h"
#include "platform/people/quotas.h"
#include "platform/people/scopes.h"
#include "platform/people/secrets.h"

namespace quern::people {
namespace {

ScopeSet scopes(const std::vector<std::string>& names) {
  const auto set = parse_scopes(names);
  EXPECT_TRUE(set);
  return set.value_or(ScopeSet());
}

TEST(Authorize, Table) {
  struct Case {
    std::vector<std::string> scopes, models;
    int64_t expires;
    bool must_change;
    Scope needed;
    std::optional<std::string_view> model;
    Verdict verdict;
  };
  using enum Verdict;
  const Case cases[] = {
      {{"models:read"}, {}, 0, false, Scope::kModelsRead, "any", kAllowed},
      {{"models:read"}, {}, 0, false, Scope::kModelsWrite, {}, kScopeMissing},
      {{"models:read"}, {}, 0, false, Scope::kModelsList, {}, kScopeMissing},
      {{"models:*"}, {}, 0, false, Scope::kModelsRegister, {}, kAllowed},
      {{"models:*"}, {}, 0, false, Scope::kUsersManage, {}, kScopeMissing},
      {{"admin"}, {}, 0, false, Scope::kUsersManage, {}, kAllowed},
      {{"*"}, {}, 0, false, Scope::kLogsList, {}, kAllowed},
      {{}, {}, 0, false, Scope::kSignedIn, {}, kAllowed},
      {{}, {}, 0, false, Scope::kModelsRead, {}, kScopeMissing},
      {{"models:read"}, {"small-*"}, 0, false, Scope::kModelsRead, "small-1", kAllowed},
      {{"models:read"}, {"small-*"}, 0, false, Scope::kModelsRead, "large-1", kModelForbidden},
      {{"models:read"}, {"small-*"}, 0, false, Scope::kModelsRead, "", kModelForbidden},
      {{"admin"}, {"a"}, 0, false, Scope::kModelsWrite, "b", kModelForbidden},
      {{"admin"}, {}, 99, false, Scope::kModelsRead, {}, kExpired},
      {{"admin"}, {}, 100, false, Scope::kModelsRead, {}, kExpired},
      {{"admin"}, {}, 101, false, Scope::kModelsRead, {}, kAllowed},
      {{"admin"}, {}, 0, true, Scope::kModelsRead, {}, kPasswordDue},
      {{"admin"}, {}, 0, true, Scope::kSignedIn, {}, kAllowed},
  };
  for (const Case& c : cases) {
    const Principal who{
        .scopes = scopes(c.scopes), .models = c.models, .expires = c.expires, .must_change_password = c.must_change};
    EXPECT_EQ(authorize(who, c.needed, c.model, 100), c.verdict) << (&c - cases);
  }
}

TEST(Scopes, NamesRolesAndIntersections) {
  EXPECT_FALSE(parse_scopes({"models:readd"}));
  EXPECT_FALSE(parse_scopes({"signed_in"}));  // not to be granted
  EXPECT_FALSE(parse_scopes({":*"}));
  EXPECT_FALSE(parse_scopes({""}));
  EXPECT_EQ(scopes({"jobs:*"}).names(), (std::vector<std::string>{"jobs:read", "jobs:write"}));
  EXPECT_EQ(scopes({"*", "jobs:read"}).names(), std::vector<std::string>{"admin"});
  EXPECT_EQ(scopes({"admin"}).both(scopes_of(Role::kViewer)), scopes_of(Role::kViewer));
  EXPECT_EQ(scopes({"users:manage"}).both(scopes_of(Role::kUser)), ScopeSet());
  EXPECT_FALSE(scopes_of(Role::kViewer).has(Scope::kModelsRead));
  EXPECT_TRUE(scopes_of(Role::kUser).has(Scope::kKeysCreate));
  EXPECT_FALSE(scopes_of(Role::kUser).has(Scope::kKeysManage));
  for (const Role role : {Role::kAdmin, Role::kUser, Role::kViewer}) EXPECT_EQ(*parse_role(role_name(role)), role);
  EXPECT_FALSE(parse_role("root"));
}

TEST(Pattern, StarsStandForAnything) {
  EXPECT_TRUE(matches_pattern("*", ""));
  EXPECT_TRUE(matches_pattern("*", "a/b"));
  EXPECT_TRUE(matches_pattern("a*c", "ac"));
  EXPECT_TRUE(matches_pattern("a*c*e", "abcdcde"));
  EXPECT_FALSE(matches_pattern("a*c", "acd"));
  EXPECT_FALSE(matches_pattern("", "a"));
  EXPECT_FALSE(matches_pattern("a.c", "abc"));
  EXPECT_FALSE(matches_pattern("Small", "small"));
  // What makes naive matchers exponential.
  EXPECT_FALSE(matches_pattern(std::string(60, '*') + "b", std::string(5000, 'a')));
}

// RFC 7914, section 12: the derivation itself; its cost is within what is accepted.
TEST(Password, KnowsTheStandardsVector) {
  const std::string hash =
      "\x70\x23\xbd\xcb\x3a\xfd\x73\x48\x46\x1c\x06\xcd\x81\xfd\x38\xeb\xfd\xa8\xfb\xba\x90\x4f\x8e\x3e\xa9\xb5\x43\xf6"
      "\x54\x5d\xa1\xf2\xd5\x43\x29\x55\x61\x3f\x0f\xcf\x62\xd4\x97\x05\x24\x2a\x9a\xf9\xe6\x1e\x85\xdc\x0d\x65\x1e\x40"
      "\xdf\xcf\x01\x7b\x45\x57\x58\x87";
  // The first half of 64 bytes is what 32 would be: PBKDF2's blocks are of 32.
  const std::string stored =
      "scrypt$16384$8$1$" + base64url_encode("SodiumChloride") + "$" + base64url_encode(hash.substr(0, 32));
  EXPECT_TRUE(verify_password("pleaseletmein", stored));
  EXPECT_FALSE(verify_password("pleaseletmeout", stored));
}

TEST(Password, RoundTripAndHostileHashes) {
  const auto one = hash_password("correct horse"), two = hash_password("correct horse");
  ASSERT_TRUE(one && two);
  EXPECT_NE(*one, *two);  // salted
  EXPECT_EQ(one->find("correct"), std::string::npos);
  EXPECT_TRUE(verify_password("correct horse", *one));
  EXPECT_FALSE(verify_password("correct horse ", *one));
  EXPECT_FALSE(hash_password("short"));
  EXPECT_FALSE(hash_password(std::string(kPasswordBytesMax + 1, 'x')));
  for (const char* bad : {"", "scrypt", "scrypt$$$$$", "scrypt$16384$8$1$AAAA$", "scrypt$1073741824$8$1$AAAA$AAAA",
                          "scrypt$16384$800$1$AAAA$AAAA", "scrypt$3$8$1$AAAA$AAAA", "md5$1$1$1$AAAA$AAAA"}) {
    EXPECT_FALSE(verify_password("", bad)) << bad;
  }
}

TEST(Base64Url, RoundTripAndOneTextForOneValue) {
  for (const std::string bytes :
       {std::string(), std::string("a"), std::string("ab"), std::string("abc"), std::string("\xff\xfe\x00\x01", 4)}) {
    EXPECT_EQ(base64url_decode(base64url_encode(bytes)), bytes);
  }
  EXPECT_EQ(base64url_encode("\xfb\xff"), "-_8");
  for (const char* bad : {"A", "AB", "-_9", "AA=", "A+==", "AAAA\n"}) EXPECT_FALSE(base64url_decode(bad)) << bad;
}

// RFC 7515, appendix A.1: the standard's own token and key.
TEST(Token, KnowsTheStandardsExample) {
  const std::string key =
      *base64url_decode("AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow");
  const std::string token =
      "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmN"
      "vbS9pc19yb290Ijp0cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
  const auto claims = verify_token(token, key, 1300819379);
  ASSERT_TRUE(claims);
  EXPECT_EQ(text_claim(*claims, "iss"), "joe");
  EXPECT_EQ(verify_token(token, key, 1300819380).error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(verify_token(token, key + "x", 0).error().code, ErrorCode::kPermissionDenied);
}

TEST(Token, TamperedOnesAreRefused) {
  const std::string secret(32, 's');
  const std::string good = sign_token({{"sub", "u"}, {"exp", 2000}}, secret);
  ASSERT_TRUE(verify_token(good, secret, 1000));
  const size_t first = good.find('.'), second = good.rfind('.');
  const std::string claims = good.substr(first, second - first), signature = good.substr(second);
  const auto with_header = [&](const char* header) { return base64url_encode(header) + claims; };
  std::string flipped = good;
  flipped[first + 3] = flipped[first + 3] == 'A' ? 'B' : 'A';
  const std::string forged = base64url_encode(R"({"sub":"admin","exp":2000})");
  for (const std::string& bad : {
           with_header(R"({"alg":"none"})") + ".",
           with_header(R"({"alg":"none"})") + signature,
           with_header(R"({"alg":"None","typ":"JWT"})") + signature,
           with_header(R"({"alg":"HS512"})") + signature,
           with_header(R"({"alg":"RS256"})") + signature,
           with_header(R"({})") + signature,
           with_header(R"([])") + signature,
           good.substr(0, first) + "." + forged + signature,
           good.substr(0, second) + ".",
           good.substr(0, second),
           good + "=",
           good + "." + "x",
           flipped,
           std::string("a.b.c"),
           std::string(".."),
           std::string(),
           std::string(100'000, 'A'),
       }) {
    const auto claimed = verify_token(bad, secret, 1000);
    ASSERT_FALSE(claimed) << bad.substr(0, 100);
    EXPECT_EQ(claimed.error().code, ErrorCode::kPermissionDenied) << bad.substr(0, 100);
  }
  EXPECT_FALSE(verify_token(sign_token({{"sub", "u"}}, secret), secret, 1000));  // without an end
  EXPECT_FALSE(verify_token(sign_token({{"exp", "9999999999"}}, secret), secret, 1000));
}

TEST(Failures, WindowBanAndEnd) {
  FailureTable table({.failures_max = 3, .window_s = 300, .ban_s = 3600}, 100);
  EXPECT_FALSE(table.count("a", 0));
  EXPECT_FALSE(table.count("a", 10));
  EXPECT_FALSE(table.count("a", 301));  // the first is out of the window
  EXPECT_EQ(table.banned_until("a", 301), 0);
  EXPECT_TRUE(table.count("a", 305));
  EXPECT_EQ(table.banned_until("a", 305), 305 + 3600);
  EXPECT_EQ(table.banned_until("b", 305), 0);
  EXPECT_EQ(table.bans(305).size(), 1u);
  EXPECT_EQ(table.banned_until("a", 305 + 3600), 0);
  EXPECT_FALSE(table.count("a", 305 + 3600));  // from the beginning
  EXPECT_TRUE(table.forget("a"));
  EXPECT_FALSE(table.forget("a"));
}

TEST(Failures, BoundedAndBansOutliveOthers) {
  FailureTable table({.failures_max = 2, .window_s = 300, .ban_s = 3600}, 50);
  table.count("attacker", 0);
  EXPECT_TRUE(table.count("attacker", 1));
  for (int i = 0; i < 5000; ++i) table.count("address " + std::to_string(i), 2 + i / 100);
  EXPECT_LE(table.size(), 50u);
  EXPECT_NE(table.banned_until("attacker", 60), 0);
}

TEST(Quotas, RequestsFillSteadily) {
  QuotaTable table;
  const Quotas quotas{.requests_per_minute = 3};
  for (int64_t left = 2; left >= 0; --left) {
    const Admission admission = table.admit("k", quotas, 1000);
    EXPECT_EQ(admission.refused_by, "");
    EXPECT_EQ(admission.requests.limit, 3);
    EXPECT_EQ(admission.requests.remaining, left);
    table.done("k", quotas, 0, 1000);
  }
  const Admission refused = table.admit("k", quotas, 1000);
  EXPECT_EQ(refused.refused_by, "requests per minute");
  EXPECT_EQ(refused.retry_after_ms, 20'000);  // one of three in a minute
  EXPECT_EQ(refused.requests.reset_ms, 60'000);
  EXPECT_NE(table.admit("k", quotas, 20'999).refused_by, "");
  EXPECT_EQ(table.admit("k", quotas, 21'001).refused_by, "");
  EXPECT_EQ(table.admit("other", quotas, 1000).refused_by, "");
  EXPECT_EQ(table.admit("k", {}, 1000).refused_by, "");
}

TEST(Quotas, TokensAreOwed) {
  QuotaTable table;
  const Quotas quotas{.tokens_per_minute = 60};
  EXPECT_EQ(table.admit("k", quotas, 0).tokens.remaining, 60);
  table.done("k", quotas, 120, 0);  // it could not be known before
  const Admission refused = table.admit("k", quotas, 0);
  EXPECT_EQ(refused.refused_by, "tokens per minute");
  EXPECT_EQ(refused.retry_after_ms, 61'000);
  EXPECT_EQ(refused.tokens.remaining, 0);
  EXPECT_EQ(table.admit("k", quotas, 61'000).refused_by, "");
}

TEST(Quotas, DaysBeginAnewAndSurviveARestart) {
  const int64_t day = 86'400'000;
  const Quotas quotas{.tokens_per_day = 100};
  QuotaTable table;
  EXPECT_EQ(table.admit("k", quotas, day).tokens.limit, 100);
  table.done("k", quotas, 100, day + 1);
  EXPECT_EQ(table.admit("k", quotas, day + 2).retry_after_ms, day - 2);
  const auto changed = table.take_changed();
  ASSERT_EQ(changed.size(), 1u);
  EXPECT_EQ(changed[0].second.tokens, 100);
  EXPECT_TRUE(table.take_changed().empty());
  QuotaTable next;
  next.set_usage("k", changed[0].second);
  EXPECT_EQ(next.admit("k", quotas, day + 3).refused_by, "tokens per day");
  EXPECT_EQ(next.admit("k", quotas, 2 * day).refused_by, "");
  EXPECT_EQ(next.usage("k", 2 * day).tokens, 0);
}

TEST(Quotas, AtOnce) {
  QuotaTable table;
  const Quotas quotas{.concurrent = 2};
  EXPECT_EQ(table.admit("k", quotas, 0).refused_by, "");
  EXPECT_EQ(table.admit("k", quotas, 0).refused_by, "");
  EXPECT_EQ(table.admit("k", quotas, 0).refused_by, "requests at once");
  table.done("k", quotas, 5, 0);
  EXPECT_EQ(table.admit("k", quotas, 0).refused_by, "");
}

std::vector<Network> networks(const std::vector<std::string>& texts) {
  std::vector<Network> list;
  for (const std::string& text : texts) {
    const auto network = parse_network(text);
    EXPECT_TRUE(network) << text;
    if (network) list.push_back(*network);
  }
  return list;
}

TEST(Addresses, Networks) {
  const auto list = networks({"10.0.0.0/9", "192.168.1.7", "2001:db8::/33", "::1"});
  for (const char* inside : {"10.127.1.1", "192.168.1.7", "2001:db8:7fff::1", "::1", "::ffff:10.1.2.3"}) {
    EXPECT_TRUE(contains(list, inside)) << inside;
  }
  for (const char* outside : {"10.128.0.0", "192.168.1.8", "2001:db8:8000::", "::2", "", "x"}) {
    EXPECT_FALSE(contains(list, outside)) << outside;
  }
  EXPECT_TRUE(contains(networks({"0.0.0.0/0"}), "8.8.8.8"));
  EXPECT_FALSE(contains(networks({"0.0.0.0/0"}), "2001:db8::1"));
  for (const char* bad : {"", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "10.0.0/8", "::/129", "a", "1.2.3.4/8x"}) {
    EXPECT_FALSE(parse_network(bad)) << bad;
  }
}

TEST(Addresses, OnlyTrustedProxiesSayWhoIsBehind) {
  const auto proxies = networks({"10.0.0.0/8"});
  EXPECT_EQ(client_address("10.0.0.1", "203.0.113.5", proxies), "203.0.113.5");
  EXPECT_EQ(client_address("203.0.113.9", "198.51.100.1", proxies), "203.0.113.9");  // a client that lies
  EXPECT_EQ(client_address("10.0.0.1", "1.1.1.1, 203.0.113.5", proxies), "203.0.113.5");
  EXPECT_EQ(client_address("10.0.0.1", "203.0.113.5 , 10.0.0.2", proxies), "203.0.113.5");
  EXPECT_EQ(client_address("10.0.0.1", "", proxies), "10.0.0.1");
  EXPECT_EQ(client_address("10.0.0.1", "203.0.113.5, nonsense", proxies), "10.0.0.1");
  EXPECT_EQ(client_address("10.0.0.1", "203.0.113.5", {}), "10.0.0.1");
  EXPECT_EQ(client_address("", "203.0.113.5", proxies), "203.0.113.5");  // by a unix socket
  EXPECT_EQ(client_address("10.0.0.1", std::string(60000, ','), proxies), "10.0.0.1");
}

TEST(Addresses, GroupsOfFailures) {
  EXPECT_EQ(address_group("192.0.2.1"), "192.0.2.1");
  EXPECT_EQ(address_group("::ffff:192.0.2.1"), "192.0.2.1");
  EXPECT_EQ(address_group("2001:db8::1"), address_group("2001:db8::ffff:1"));
  EXPECT_NE(address_group("2001:db8::1"), address_group("2001:db8:0:1::1"));
  EXPECT_EQ(address_group("user:a"), "user:a");
}

}  // namespace
}  // namespace quern::people
