// quern key create|list|revoke: API keys of this machine's server, running or not.
#include <cstdio>
#include <memory>

#include "base/json.h"
#include "base/status.h"
#include "catalog_report.h"
#include "command.h"
#include "people_database.h"

namespace quern::cli {
namespace {

struct KeyOptions {
  std::string name, owner, id;
  std::vector<std::string> scopes = {"models:list", "models:read"};
  std::vector<std::string> models;
  int64_t days = 0;
  people::Quotas quotas;
  bool json = false;
};

Json key_json(const people::People& people, const people::ApiKey& key) {
  const auto owner = people.user(key.owner);
  return {{"id", key.id},
          {"name", key.name},
          {"owner", owner ? owner->name : ""},
          {"hint", key.hint},
          {"scopes", key.scopes.names()},
          {"models", key.models},
          {"expires", key.expires},
          {"banned", key.banned},
          {"created", key.created},
          {"last_used", key.last_used}};
}

Status create(const KeyOptions& options) {
  QUERN_ASSIGN(const auto people, open_people_database());
  auto owner = people->user(options.owner);
  if (!owner) return std::unexpected(prefixed(std::move(owner).error(), "--owner"));
  people::ApiKey key{.name = options.name, .owner = owner->id, .models = options.models, .quotas = options.quotas};
  QUERN_ASSIGN(key.scopes, people::parse_scopes(options.scopes));
  if (options.days > 0) key.expires = people->now() + options.days * 86400;
  QUERN_ASSIGN(const people::NewKey made, people->add_key(std::move(key)));
  QUERN_TRY(note_change(*people, "key create", made.key.id + " " + made.key.name));
  if (options.json) {
    Json json = key_json(*people, made.key);
    json["key"] = made.secret;
    print_json(json);
  } else {
    std::printf("%s\n", made.secret.c_str());
    std::fprintf(stderr, "quern: key %s; it is shown this once\n", made.key.id.c_str());
  }
  return {};
}

Status list(const KeyOptions& options) {
  QUERN_ASSIGN(const auto people, open_people_database());
  Json data = Json::array();
  for (const people::ApiKey& key : people->keys()) {
    data.push_back(key_json(*people, key));
    if (options.json) continue;
    const auto owner = people->user(key.owner);
    std::printf("%-16s %-12s %-20s %-20s %s\n", key.id.c_str(), key.hint.c_str(), owner ? owner->name.c_str() : "",
                key.name.c_str(), key.expires == 0 ? "for ever" : date_text(key.expires).c_str());
  }
  if (options.json) print_json({{"data", data}});
  return {};
}

Status revoke(const KeyOptions& options) {
  QUERN_ASSIGN(const auto people, open_people_database());
  QUERN_TRY(people->remove_key(options.id));
  return note_change(*people, "key revoke", options.id);
}

}  // namespace

void add_key(CLI::App& app, ExitCode& exit) {
  const auto options = std::make_shared<KeyOptions>();
  CLI::App* group = app.add_subcommand("key", "API keys of the server (quern serve --auth)");
  group->require_subcommand(1);
  const auto command = [&](const char* name, const char* help, Status (*run)(const KeyOptions&)) {
    CLI::App* one = group->add_subcommand(name, help);
    one->callback([options, one, run, &exit] { finish(run(*options), *one, exit); });
    return one;
  };
  CLI::App* making = command("create", "make a key and print it, this once", create);
  making->add_option("NAME", options->name, "what it is for")->required();
  making->add_option("--owner", options->owner, "the user it is of")->required();
  making->add_option("--scopes", options->scopes, "what it may do, of what its owner may")
      ->delimiter(',')
      ->capture_default_str();
  making->add_option("--models", options->models, "models it is for, * for any run of letters (default: all)")
      ->delimiter(',');
  making->add_option("--days", options->days, "days until it expires; 0: never")
      ->check(CLI::Range(int64_t{0}, int64_t{36500}))
      ->capture_default_str();
  const auto quota = [&](const char* name, int64_t& value, const char* help) {
    making->add_option(name, value, help)
        ->check(CLI::Range(int64_t{0}, int64_t{1'000'000'000'000}))
        ->capture_default_str();
  };
  quota("--requests-per-minute", options->quotas.requests_per_minute, "0: no limit");
  quota("--tokens-per-minute", options->quotas.tokens_per_minute, "0: no limit");
  quota("--tokens-per-day", options->quotas.tokens_per_day, "0: no limit");
  quota("--concurrent", options->quotas.concurrent, "requests at once; 0: no limit");
  making->add_flag("--json", options->json, "print JSON");
  command("list", "all keys", list)->add_flag("--json", options->json, "print JSON");
  command("revoke", "take a key away for good", revoke)
      ->add_option("ID", options->id, "as `quern key list` shows it")
      ->required();
}

}  // namespace quern::cli
