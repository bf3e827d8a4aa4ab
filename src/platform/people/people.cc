#include "platform/people/people.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>

#include "base/status.h"
#include "platform/people/addresses.h"
#include "platform/people/people_rows.h"
#include "platform/people/secrets.h"

namespace quern::people {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSchema =
    "CREATE TABLE IF NOT EXISTS users(id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE COLLATE NOCASE, role TEXT NOT "
    "NULL,"
    " password TEXT NOT NULL, subject TEXT NOT NULL, disabled INTEGER NOT NULL, must_change INTEGER NOT NULL,"
    " created INTEGER NOT NULL, last_login INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS keys(id TEXT PRIMARY KEY, name TEXT NOT NULL,"
    " owner TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE, digest TEXT NOT NULL UNIQUE, hint TEXT NOT NULL,"
    " scopes TEXT NOT NULL, models TEXT NOT NULL, expires INTEGER NOT NULL, requests_per_minute INTEGER NOT NULL,"
    " tokens_per_minute INTEGER NOT NULL, tokens_per_day INTEGER NOT NULL, concurrent INTEGER NOT NULL,"
    " banned INTEGER NOT NULL, created INTEGER NOT NULL, last_used INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS sessions(id TEXT PRIMARY KEY,"
    " user TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE, digest TEXT NOT NULL, expires INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS usage(key TEXT PRIMARY KEY REFERENCES keys(id) ON DELETE CASCADE,"
    " day INTEGER NOT NULL, requests INTEGER NOT NULL, tokens INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS settings(name TEXT PRIMARY KEY, value TEXT NOT NULL);";

constexpr size_t kSubjectsMax = 10'000;  // that failures are counted of
constexpr size_t kSecretBytes = 32;
constexpr int64_t kCheckEveryMs = 1000, kSaveEveryMs = 5000, kSweepEverySeconds = 3600;
constexpr int kHashesMax = 4;

std::unexpected<Error> file_error(const fs::path& path, const char* what) {
  return io_error(fmt::format("{}: {}: {}", path.string(), what, std::strerror(errno)));
}

// SQLite gives its other files the mode of the first.
Status make_private_file(const fs::path& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return file_error(path, "cannot create");
  const bool closed_to_others = ::fchmod(file, 0600) == 0;
  ::close(file);
  return closed_to_others ? Status() : file_error(path, "cannot be made private");
}

// Written beside, then linked: of two processes that start together one wins, and nobody reads half a secret.
Status make_secret(const fs::path& path) {
  const fs::path beside = path.string() + "." + random_token(6);
  const int file = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return file_error(beside, "cannot create");
  const std::string secret = random_bytes(kSecretBytes);
  const bool written = ::write(file, secret.data(), secret.size()) == static_cast<ssize_t>(secret.size());
  ::close(file);
  const bool linked = written && (::link(beside.c_str(), path.c_str()) == 0 || errno == EEXIST);
  const Status status = linked ? Status() : file_error(path, "cannot write");
  ::unlink(beside.c_str());
  return status;
}

Result<std::string> read_secret(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) QUERN_TRY(make_secret(path));
  std::ifstream file(path, std::ios::binary);
  std::string secret(kSecretBytes + 1, '\0');
  file.read(secret.data(), static_cast<std::streamsize>(secret.size()));
  secret.resize(static_cast<size_t>(file.gcount()));
  if (secret.size() != kSecretBytes) {
    return invalid_file(
        fmt::format("{}: must hold {} bytes; remove it, and all sign in anew", path.string(), kSecretBytes));
  }
  if (::chmod(path.c_str(), 0600) != 0) return file_error(path, "cannot be made private");
  return secret;
}

}  // namespace

People::People(PeopleOptions options, std::unique_ptr<Database> database, std::string secret)
    : options_(std::move(options)),
      database_(std::move(database)),
      secret_(std::move(secret)),
      audit_(*database_),
      addresses_(options_.address_rule, kSubjectsMax),
      subjects_(options_.subject_rule, kSubjectsMax) {}

Result<std::unique_ptr<People>> People::open(PeopleOptions options) {
  std::error_code error;
  fs::create_directories(options.folder, error);
  const fs::path path = options.folder / "people.db";
  QUERN_TRY(make_private_file(path));
  QUERN_ASSIGN(auto database, Database::open(path, std::string(kSchema) + AuditLog::kSchema));
  QUERN_ASSIGN(std::string secret, read_secret(options.folder / "people.key"));
  std::unique_ptr<People> people(new People(std::move(options), std::move(database), std::move(secret)));
  QUERN_ASSIGN(people->dummy_hash_, hash_password(random_token(16)));
  const std::lock_guard lock(people->mutex_);
  QUERN_TRY(people->load_when_changed());
  QUERN_TRY(people->load_usage());
  return people;
}

People::~People() {
  const std::lock_guard lock(mutex_);
  (void)save_usage();  // nobody is left to tell; at most the last seconds of today's counts are lost
}

int64_t People::now_ms() const {
  if (options_.now_ms) return options_.now_ms();
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

Status People::load() {
  QUERN_ASSIGN(const auto users, database_->run(std::string("SELECT ") + kUserColumns + " FROM users"));
  QUERN_ASSIGN(const auto keys, database_->run(std::string("SELECT ") + kKeyColumns + " FROM keys"));
  QUERN_ASSIGN(const auto sessions,
               database_->run("SELECT id, user, digest, expires FROM sessions WHERE expires > ?1", {now()}));
  users_.clear();
  user_ids_.clear();
  for (const auto& row : users) {
    QUERN_ASSIGN(User user, user_of_row(row));
    user_ids_[lower_case(user.name)] = user.id;
    const std::string id = user.id;
    users_[id] = {std::move(user), text_of(row[kUserPasswordColumn])};
  }
  keys_.clear();
  key_ids_.clear();
  for (const auto& row : keys) {
    QUERN_ASSIGN(ApiKey key, key_of_row(row));
    key_ids_[text_of(row[kKeyDigestColumn])] = key.id;
    const std::string id = key.id;
    keys_[id] = std::move(key);
  }
  sessions_.clear();
  for (const auto& row : sessions) {
    const std::string id = text_of(row[0]);
    sessions_[id] = {id, text_of(row[1]), text_of(row[2]), integer_of(row[3])};
  }
  return {};
}

Status People::load_when_changed() {
  const int64_t at = now_ms();
  if (data_version_ >= 0 && at - checked_ms_ < kCheckEveryMs && at >= checked_ms_) return {};
  checked_ms_ = at;
  QUERN_ASSIGN(const auto rows, database_->run("PRAGMA data_version"));
  const int64_t version = integer_of(rows.at(0).at(0));
  if (version != data_version_) {
    QUERN_TRY(load());
    data_version_ = version;
  }
  if (now() - swept_s_ < kSweepEverySeconds) return {};
  swept_s_ = now();
  std::erase_if(sessions_, [&](const auto& item) { return item.second.expires <= swept_s_; });
  QUERN_TRY(database_->run("DELETE FROM sessions WHERE expires <= ?1", {swept_s_}));
  return audit_.remove_old(swept_s_);
}

Status People::load_usage() {
  QUERN_ASSIGN(const auto rows, database_->run("SELECT key, day, requests, tokens FROM usage"));
  for (const auto& row : rows) {
    quotas_.set_usage(text_of(row[0]),
                      {.day = integer_of(row[1]), .requests = integer_of(row[2]), .tokens = integer_of(row[3])});
  }
  return {};
}

Status People::save_usage() {
  saved_ms_ = now_ms();
  for (const auto& [id, usage] : quotas_.take_changed()) {
    const auto key = keys_.find(id);
    if (key == keys_.end()) continue;
    QUERN_TRY(
        database_->run("INSERT INTO usage(key, day, requests, tokens) VALUES(?1, ?2, ?3, ?4)"
                       " ON CONFLICT(key) DO UPDATE SET day = ?2, requests = ?3, tokens = ?4",
                       {id, usage.day, usage.requests, usage.tokens}));
    QUERN_TRY(database_->run("UPDATE keys SET last_used = ?2 WHERE id = ?1", {id, key->second.last_used}));
  }
  return {};
}

Result<std::string> People::hash_bounded(const std::string& password) {
  {
    const std::lock_guard lock(mutex_);
    if (hashing_ >= kHashesMax) return make_error(ErrorCode::kResourceExhausted, "too many passwords at once");
    ++hashing_;
  }
  auto hash = hash_password(password);
  const std::lock_guard lock(mutex_);
  --hashing_;
  return hash;
}

Result<bool> People::verify_bounded(const std::string& password, const std::string& stored) {
  {
    const std::lock_guard lock(mutex_);
    if (hashing_ >= kHashesMax) return make_error(ErrorCode::kResourceExhausted, "too many passwords at once");
    ++hashing_;
  }
  const bool fits = verify_password(password, stored);
  const std::lock_guard lock(mutex_);
  --hashing_;
  return fits;
}

int64_t People::banned_seconds(const std::string& subject) const {
  const std::lock_guard lock(mutex_);
  const int64_t at = now();
  const int64_t until =
      std::max(addresses_.banned_until(address_group(subject), at), subjects_.banned_until(subject, at));
  return until > at ? until - at : 0;
}

bool People::count_failure(const std::string& address, const std::string& credential) {
  const std::lock_guard lock(mutex_);
  subjects_.count(key_subject(credential), now());
  return !address.empty() && addresses_.count(address_group(address), now());
}

std::vector<Ban> People::bans() const {
  const std::lock_guard lock(mutex_);
  std::vector<Ban> bans = addresses_.bans(now());
  const std::vector<Ban> more = subjects_.bans(now());
  bans.insert(bans.end(), more.begin(), more.end());
  return bans;
}

bool People::unban(const std::string& subject) {
  const std::lock_guard lock(mutex_);
  const bool address = addresses_.forget(subject) || addresses_.forget(address_group(subject));
  return subjects_.forget(subject) || address;
}

Status People::ban(const std::string& address, int64_t seconds) {
  if (!parse_network(address) || address.find('/') != std::string::npos) {
    return invalid_argument(fmt::format("address: '{:.64}' is no address", address));
  }
  if (seconds < 1 || seconds > 366 * 86400)
    return invalid_argument(fmt::format("seconds: {} is outside 1 to a year", seconds));
  const std::lock_guard lock(mutex_);
  addresses_.ban(address_group(address), now() + seconds, now());
  return {};
}

Admission People::admit(const std::string& key_id, const Quotas& quotas) {
  const std::lock_guard lock(mutex_);
  return quotas_.admit(key_id, quotas, now_ms());
}

void People::done(const std::string& key_id, const Quotas& quotas, int64_t tokens) {
  const std::lock_guard lock(mutex_);
  quotas_.done(key_id, quotas, tokens, now_ms());
  // What cannot be written now is written with the next change; the counts in memory are what limits.
  if (now_ms() - saved_ms_ >= kSaveEveryMs) (void)save_usage();
}

Usage People::usage(const std::string& key_id) const {
  const std::lock_guard lock(mutex_);
  return quotas_.usage(key_id, now_ms());
}

}  // namespace quern::people
