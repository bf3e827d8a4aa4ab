// People over a real database: users, keys, sessions, bans, the audit log, and what stands on the disk.
#include "platform/people/people.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "platform/people/secrets.h"

namespace quern::people {
namespace {

namespace fs = std::filesystem;

class PeopleTest : public ::testing::Test {
 protected:
  PeopleTest() {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(::testing::TempDir()) / fmt_name(info->name());
    fs::remove_all(folder_);
    open();
  }
  ~PeopleTest() override {
    people_.reset();
    fs::remove_all(folder_);
  }
  static std::string fmt_name(const std::string& test) {
    return "quern_people_" + std::to_string(::getpid()) + "_" + test;
  }
  std::unique_ptr<People> open_other() {
    auto people = People::open({.folder = folder_, .now_ms = [this] { return now_ms_; }});
    EXPECT_TRUE(people) << (people ? "" : people.error().message);
    return people ? std::move(*people) : nullptr;
  }
  void open() {
    people_.reset();
    people_ = open_other();
    ASSERT_NE(people_, nullptr);
  }
  void pass(int64_t seconds) { now_ms_ += seconds * 1000; }
  User admin() {
    const auto user = people_->add_user("root", Role::kAdmin, "root's password");
    EXPECT_TRUE(user);
    return user.value_or(User());
  }
  NewKey key_of(const User& owner, ApiKey key = {}) {
    key.owner = owner.id;
    if (key.name.empty()) key.name = "test";
    if (key.scopes == ScopeSet()) key.scopes = *parse_scopes({"models:read"});
    const auto made = people_->add_key(key);
    EXPECT_TRUE(made) << (made ? "" : made.error().message);
    return made.value_or(NewKey());
  }
  Identified::Kind kind_of(const std::string& credential) { return people_->identify(credential).kind; }

  int64_t now_ms_ = 1'800'000'000'000;
  fs::path folder_;
  std::unique_ptr<People> people_;
};

using Kind = Identified::Kind;

std::string all_bytes(const fs::path& folder) {
  std::stringstream bytes;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) bytes << std::ifstream(entry.path(), std::ios::binary).rdbuf();
  }
  return bytes.str();
}

TEST_F(PeopleTest, TheFirstAdminComesByALinkOnce) {
  EXPECT_TRUE(people_->needs_setup());
  const auto old = people_->make_setup_token(), token = people_->make_setup_token();
  ASSERT_TRUE(old && token);
  EXPECT_EQ(people_->setup(*old, "root", "long enough").error().code, ErrorCode::kPermissionDenied);  // rotated
  EXPECT_FALSE(people_->setup("", "root", "long enough"));
  EXPECT_EQ(people_->setup(*token, "root", "short").error().code, ErrorCode::kInvalidArgument);
  EXPECT_FALSE(people_->setup(*token, "ro ot", "long enough"));
  const auto user = people_->setup(*token, "root", "long enough");
  ASSERT_TRUE(user);
  EXPECT_EQ(user->role, Role::kAdmin);
  EXPECT_FALSE(people_->needs_setup());
  EXPECT_FALSE(people_->setup(*token, "second", "long enough"));
  EXPECT_FALSE(people_->make_setup_token());
}

TEST_F(PeopleTest, TheLinkEndsAfterADay) {
  const auto token = people_->make_setup_token();
  ASSERT_TRUE(token);
  pass(86400);
  EXPECT_FALSE(people_->setup(*token, "root", "long enough"));
}

TEST_F(PeopleTest, UsersAreKeptAndNamesAreUnique) {
  admin();
  ASSERT_TRUE(people_->add_user("Eve", Role::kViewer, "eve's password"));
  EXPECT_FALSE(people_->add_user("eVE", Role::kUser, "eve's password"));
  EXPECT_FALSE(people_->add_user("", Role::kUser, "eve's password"));
  EXPECT_FALSE(people_->add_user("a'; DROP TABLE users; --", Role::kUser, "eve's password"));
  open();
  ASSERT_EQ(people_->users().size(), 2u);
  EXPECT_EQ(people_->user("EVE")->name, "Eve");
  EXPECT_EQ(people_->user("eve")->role, Role::kViewer);
  EXPECT_FALSE(people_->user("nobody"));
}

TEST_F(PeopleTest, TheLastAdminStays) {
  const User root = admin();
  EXPECT_FALSE(people_->change_user(root.id, {.role = Role::kUser}));
  EXPECT_FALSE(people_->change_user(root.id, {.disabled = true}));
  EXPECT_FALSE(people_->remove_user(root.id));
  const auto second = people_->add_user("second", Role::kAdmin, "second's password");
  ASSERT_TRUE(second);
  EXPECT_TRUE(people_->change_user(root.id, {.role = Role::kUser}));
  EXPECT_FALSE(people_->remove_user(second->id));
}

TEST_F(PeopleTest, SigningIn) {
  const User root = admin();
  const auto tokens = people_->login("Root", "root's password", "192.0.2.1");
  ASSERT_TRUE(tokens);
  const Identified found = people_->identify(tokens->access);
  ASSERT_EQ(found.kind, Kind::kKnown);
  EXPECT_EQ(found.principal.user_id, root.id);
  EXPECT_TRUE(found.principal.scopes.has(Scope::kUsersManage));
  const auto wrong = people_->login("root", "wrong password", "192.0.2.1");
  const auto unknown = people_->login("nobody", "wrong password", "192.0.2.1");
  EXPECT_EQ(wrong.error().message, unknown.error().message);
  pass(kAccessSeconds);
  EXPECT_EQ(kind_of(tokens->access), Kind::kStale);
}

TEST_F(PeopleTest, RefreshTokensRotateAndReuseEndsTheSession) {
  admin();
  const auto first = people_->login("root", "root's password", "");
  ASSERT_TRUE(first);
  pass(60);
  const auto second = people_->refresh(first->refresh, "");
  ASSERT_TRUE(second);
  EXPECT_NE(second->refresh, first->refresh);
  EXPECT_EQ(kind_of(second->access), Kind::kKnown);
  EXPECT_FALSE(people_->refresh(first->refresh, "192.0.2.9"));  // a thief, or the owner after the thief
  EXPECT_FALSE(people_->refresh(second->refresh, ""));
  EXPECT_EQ(kind_of(second->access), Kind::kStale);
  const auto page = people_->audit().search({.action = "refresh"});
  ASSERT_TRUE(page);
  ASSERT_EQ(page->lines.size(), 1u);
  EXPECT_EQ(page->lines[0].address, "192.0.2.9");
  for (const char* bad : {"", ".", "x", "x.y", "'.'"}) EXPECT_FALSE(people_->refresh(bad, "")) << bad;
}

TEST_F(PeopleTest, RefreshTokensEndAfterAWeekAndSurviveARestart) {
  admin();
  const auto tokens = people_->login("root", "root's password", "");
  ASSERT_TRUE(tokens);
  open();
  EXPECT_EQ(kind_of(tokens->access), Kind::kKnown);
  const auto next = people_->refresh(tokens->refresh, "");
  ASSERT_TRUE(next);
  pass(kRefreshSeconds);
  EXPECT_FALSE(people_->refresh(next->refresh, ""));
}

TEST_F(PeopleTest, SessionsEndWithLogoutPasswordAndUser) {
  const User root = admin();
  const auto one = people_->login("root", "root's password", ""), two = people_->login("root", "root's password", "");
  ASSERT_TRUE(one && two);
  ASSERT_TRUE(people_->end_session(people_->identify(one->access).principal.session));
  EXPECT_EQ(kind_of(one->access), Kind::kStale);
  EXPECT_EQ(kind_of(two->access), Kind::kKnown);
  EXPECT_EQ(people_->change_password(root.id, "wrong password", "next password").error().code,
            ErrorCode::kPermissionDenied);
  EXPECT_FALSE(people_->change_password(root.id, "root's password", "short"));
  ASSERT_TRUE(people_->change_password(root.id, "root's password", "next password"));
  EXPECT_EQ(kind_of(two->access), Kind::kStale);
  EXPECT_FALSE(people_->login("root", "root's password", ""));
  EXPECT_TRUE(people_->login("root", "next password", ""));
  const auto eve = people_->add_user("eve", Role::kUser, "eve's password");
  const auto tokens = people_->login("eve", "eve's password", "");
  ASSERT_TRUE(eve && tokens);
  ASSERT_TRUE(people_->change_user(eve->id, {.disabled = true}));
  EXPECT_EQ(kind_of(tokens->access), Kind::kStale);
  EXPECT_FALSE(people_->refresh(tokens->refresh, ""));
  EXPECT_FALSE(people_->login("eve", "eve's password", ""));
}

TEST_F(PeopleTest, ATokenOfAnotherServerIsNone) {
  admin();
  const auto tokens = people_->login("root", "root's password", "");
  ASSERT_TRUE(tokens);
  fs::remove(folder_ / "people.key");
  open();
  EXPECT_EQ(kind_of(tokens->access), Kind::kUnknown);
}

TEST_F(PeopleTest, WrongPasswordsBanTheNameAndThenTheAddress) {
  admin();
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(people_->login("root", "wrong password", "192.0.2.1").error().code, ErrorCode::kPermissionDenied);
  }
  EXPECT_EQ(people_->login("root", "root's password", "192.0.2.1").error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(people_->login("root", "root's password", "192.0.2.2").error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(people_->banned_seconds("192.0.2.1"), 0);
  for (int i = 0; i < 5; ++i) (void)people_->login("user" + std::to_string(i), "wrong password", "192.0.2.1");
  EXPECT_EQ(people_->banned_seconds("192.0.2.1"), 3600);
  EXPECT_EQ(people_->bans().size(), 2u);
  pass(3601);
  EXPECT_EQ(people_->banned_seconds("192.0.2.1"), 0);
  EXPECT_TRUE(people_->login("root", "root's password", "192.0.2.1"));
}

TEST_F(PeopleTest, BansByHandAndTheirEnd) {
  EXPECT_FALSE(people_->ban("not an address", 60));
  EXPECT_FALSE(people_->ban("10.0.0.0/8", 60));
  EXPECT_FALSE(people_->ban("10.0.0.1", 0));
  ASSERT_TRUE(people_->ban("2001:db8::1", 60));
  EXPECT_EQ(people_->banned_seconds("2001:db8::2"), 60);
  EXPECT_TRUE(people_->unban("2001:db8::1"));
  EXPECT_EQ(people_->banned_seconds("2001:db8::2"), 0);
  EXPECT_FALSE(people_->unban("2001:db8::1"));
}

TEST_F(PeopleTest, KeysHaveNoMoreThanTheirOwner) {
  const User root = admin();
  const auto eve = people_->add_user("eve", Role::kViewer, "eve's password");
  ASSERT_TRUE(eve);
  const NewKey made = key_of(*eve, {.scopes = ScopeSet::all(), .models = {"small*"}});
  EXPECT_TRUE(made.secret.starts_with("qk-"));
  Identified found = people_->identify(made.secret);
  ASSERT_EQ(found.kind, Kind::kKnown);
  EXPECT_FALSE(found.principal.scopes.has(Scope::kModelsRead));
  EXPECT_TRUE(found.principal.scopes.has(Scope::kModelsList));
  ASSERT_TRUE(people_->change_user(eve->id, {.role = Role::kUser}));
  found = people_->identify(made.secret);
  EXPECT_TRUE(found.principal.scopes.has(Scope::kModelsRead));
  EXPECT_FALSE(found.principal.scopes.has(Scope::kUsersManage));
  ASSERT_TRUE(people_->change_user(eve->id, {.disabled = true}));
  EXPECT_EQ(kind_of(made.secret), Kind::kStale);
  ASSERT_TRUE(people_->remove_user(eve->id));
  EXPECT_EQ(kind_of(made.secret), Kind::kUnknown);
  EXPECT_TRUE(people_->keys().empty());
}

TEST_F(PeopleTest, KeysExpireAndAreBannedAndRevoked) {
  const User root = admin();
  const NewKey made = key_of(root, {.expires = people_->now() + 60});
  EXPECT_EQ(kind_of(made.secret), Kind::kKnown);
  pass(60);
  EXPECT_EQ(kind_of(made.secret), Kind::kStale);
  ASSERT_TRUE(people_->change_key(made.key.id, {.name = "renamed"}));  // an old end does not stand in the way
  ASSERT_TRUE(people_->change_key(made.key.id, {.expires = 0}));
  EXPECT_EQ(kind_of(made.secret), Kind::kKnown);
  ASSERT_TRUE(people_->change_key(made.key.id, {.banned = true}));
  EXPECT_EQ(kind_of(made.secret), Kind::kStale);
  ASSERT_TRUE(
      people_->change_key(made.key.id, {.scopes = {{"models:list"}}, .models = {{"a", "b*"}}, .banned = false}));
  open();
  const Identified found = people_->identify(made.secret);
  ASSERT_EQ(found.kind, Kind::kKnown);
  EXPECT_EQ(found.principal.models, (std::vector<std::string>{"a", "b*"}));
  EXPECT_EQ(people_->key(made.key.id)->name, "renamed");
  ASSERT_TRUE(people_->remove_key(made.key.id));
  EXPECT_EQ(kind_of(made.secret), Kind::kUnknown);
  EXPECT_FALSE(people_->change_key(made.key.id, {}));
}

TEST_F(PeopleTest, BadKeysAreRefusedByName) {
  const User root = admin();
  const ScopeSet read = *parse_scopes({"models:read"});
  const auto message = [&](ApiKey key) {
    key.owner = root.id;
    const auto made = people_->add_key(std::move(key));
    return made ? std::string() : made.error().message;
  };
  EXPECT_TRUE(message({.name = "", .scopes = read}).starts_with("name:"));
  EXPECT_TRUE(message({.name = "a\nb", .scopes = read}).starts_with("name:"));
  EXPECT_TRUE(message({.name = "n"}).starts_with("scopes:"));
  EXPECT_TRUE(message({.name = "n", .scopes = read, .models = {""}}).starts_with("models:"));
  EXPECT_TRUE(message({.name = "n", .scopes = read, .expires = 1}).starts_with("expires:"));
  EXPECT_TRUE(message({.name = "n", .scopes = read, .quotas = {.tokens_per_day = -1}}).starts_with("tokens_per_day:"));
}

TEST_F(PeopleTest, AWrongKeyIsBannedByItself) {
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(kind_of("qk-wrong"), Kind::kUnknown);
    EXPECT_FALSE(people_->count_failure("192.0.2." + std::to_string(i), "qk-wrong"));
  }
  const Identified found = people_->identify("qk-wrong");
  EXPECT_EQ(found.kind, Kind::kBanned);
  EXPECT_EQ(found.retry_after_s, 3600);
  for (int i = 0; i < 9; ++i) EXPECT_FALSE(people_->count_failure("192.0.2.100", "qk-" + std::to_string(i)));
  EXPECT_TRUE(people_->count_failure("192.0.2.100", "qk-9"));
}

TEST_F(PeopleTest, UsageOfTheDaySurvivesARestart) {
  const User root = admin();
  const Quotas quotas{.tokens_per_day = 100};
  const NewKey made = key_of(root, {.quotas = quotas});
  EXPECT_EQ(people_->admit(made.key.id, quotas).refused_by, "");
  people_->done(made.key.id, quotas, 150);
  open();
  EXPECT_EQ(people_->usage(made.key.id).tokens, 150);
  EXPECT_EQ(people_->admit(made.key.id, quotas).refused_by, "tokens per day");
}

TEST_F(PeopleTest, WhatAnotherProcessChangesIsSeen) {
  const User root = admin();
  const NewKey made = key_of(root);
  EXPECT_EQ(kind_of(made.secret), Kind::kKnown);
  const auto other = open_other();
  ASSERT_NE(other, nullptr);
  ASSERT_TRUE(other->remove_key(made.key.id));
  pass(1);
  EXPECT_EQ(kind_of(made.secret), Kind::kUnknown);
}

TEST_F(PeopleTest, OidcUsersAreTheirOwn) {
  admin();
  const auto user = people_->oidc_user("https://issuer 42", "root", Role::kViewer);
  ASSERT_TRUE(user);
  EXPECT_EQ(user->name, "root-2");  // a name is no proof of being somebody
  EXPECT_FALSE(people_->login("root-2", "", ""));
  const auto again = people_->oidc_user("https://issuer 42", "other name", Role::kAdmin);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->id, user->id);
  EXPECT_EQ(again->role, Role::kAdmin);
  EXPECT_EQ(people_->oidc_user("https://issuer 43", "a b<script>", Role::kUser)->name, "a-b-script-");
  ASSERT_TRUE(people_->start_session(*again));
  ASSERT_TRUE(people_->change_user(again->id, {.disabled = true}));
  EXPECT_FALSE(people_->oidc_user("https://issuer 42", "root", Role::kAdmin));
  EXPECT_FALSE(people_->start_session(*again));
}

TEST_F(PeopleTest, NothingOnTheDiskOpensAnything) {
  const auto token = people_->make_setup_token();
  const User root = admin();
  const NewKey made = key_of(root);
  const auto tokens = people_->login("root", "root's password", "192.0.2.1");
  ASSERT_TRUE(token && tokens);
  const std::string bytes = all_bytes(folder_);
  ASSERT_NE(bytes.find("root"), std::string::npos);  // it is the right place
  for (const std::string& secret : {std::string("root's password"), made.secret, made.secret.substr(8), tokens->access,
                                    tokens->refresh, tokens->refresh.substr(tokens->refresh.find('.') + 1), *token}) {
    EXPECT_EQ(bytes.find(secret), std::string::npos);
  }
  for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
    struct stat status{};
    ASSERT_EQ(::stat(entry.path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 077, 0u) << entry.path();
  }
}

TEST_F(PeopleTest, ABrokenSecretIsRefused) {
  people_.reset();
  std::ofstream(folder_ / "people.key") << "short";
  EXPECT_FALSE(People::open({.folder = folder_}));
}

TEST_F(PeopleTest, TheAuditLogIsSearchedInPages) {
  AuditLog& audit = people_->audit();
  for (int i = 0; i < 10; ++i) {
    AuditLine line;
    line.time = 1000 + i;
    line.who = i % 2 == 0 ? "Alice" : "bob%";
    line.action = "POST /v1/models";
    line.target = std::string(5000, 'x');
    line.address = "192.0.2.1";
    line.outcome = "ok";
    ASSERT_TRUE(audit.add(line));
  }
  auto page = audit.search({.who = "alice", .limit = 3});
  ASSERT_TRUE(page);
  EXPECT_EQ(page->total, 5);
  ASSERT_EQ(page->lines.size(), 3u);
  EXPECT_EQ(page->lines[0].time, 1008);
  EXPECT_EQ(page->lines[0].target.size(), 512u);
  page = audit.search({.who = "alice", .before = page->next_before, .limit = 3});
  ASSERT_TRUE(page);
  EXPECT_EQ(page->lines.size(), 2u);
  EXPECT_EQ(page->next_before, 0);
  EXPECT_EQ(audit.search({.who = "%"})->total, 5);  // a letter, not a wildcard
  EXPECT_EQ(audit.search({.who = "_"})->total, 0);
  EXPECT_EQ(audit.search({.who = "' OR 1=1 --"})->total, 0);
  EXPECT_EQ(audit.search({.since = 1003, .until = 1005})->total, 3);
  EXPECT_FALSE(audit.search({.limit = 0}));
  EXPECT_FALSE(audit.search({.limit = 501}));
  ASSERT_TRUE(audit.remove_old(1005 + kAuditDays * 86400));
  EXPECT_EQ(audit.search({})->total, 5);
}

}  // namespace
}  // namespace quern::people
