// quern user add|list|passwd|reset|disable|enable|rm: users of this machine's server, running or not.
#include <termios.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <memory>

#include "base/json.h"
#include "base/status.h"
#include "catalog_report.h"
#include "command.h"
#include "input.h"
#include "people_database.h"
#include "platform/people/secrets.h"

namespace quern::cli {
namespace {

struct UserOptions {
  std::string name;
  std::string role = "user";
  bool json = false;
};

// Typed without being shown.
Result<std::string> ask_hidden(const char* prompt) {
  std::fputs(prompt, stderr);
  termios shown{};
  if (tcgetattr(STDIN_FILENO, &shown) != 0) return io_error("the terminal cannot hide what is typed");
  termios hidden = shown;
  hidden.c_lflag &= ~static_cast<tcflag_t>(ECHO);
  tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden);
  std::string line;
  const auto read = read_stdin_line(line, people::kPasswordBytesMax + 1);
  tcsetattr(STDIN_FILENO, TCSAFLUSH, &shown);
  std::fputs("\n", stderr);
  if (!read) return std::unexpected(read.error());
  return line;
}

// From the terminal, twice; from a pipe, its first line. Never from the command line, which others can see.
Result<std::string> read_password() {
  if (isatty(STDIN_FILENO) == 0) {
    std::string line;
    QUERN_ASSIGN(const bool any, read_stdin_line(line, people::kPasswordBytesMax + 1));
    if (!any) return invalid_argument("password: nothing on stdin");
    return line;
  }
  QUERN_ASSIGN(const std::string once, ask_hidden("password: "));
  QUERN_ASSIGN(const std::string again, ask_hidden("again: "));
  if (once != again) return invalid_argument("password: the two are not the same");
  return once;
}

Json user_json(const people::User& user) {
  return {{"id", user.id},
          {"username", user.name},
          {"role", role_name(user.role)},
          {"disabled", user.disabled},
          {"oidc", !user.subject.empty()},
          {"must_change_password", user.must_change_password},
          {"created", user.created},
          {"last_login", user.last_login}};
}

Status add(const UserOptions& options) {
  QUERN_ASSIGN(const people::Role role, people::parse_role(options.role));
  QUERN_ASSIGN(const auto people, open_people_database());
  QUERN_ASSIGN(const std::string password, read_password());
  if (password.empty()) return invalid_argument("password: is empty");
  QUERN_ASSIGN(const people::User user, people->add_user(options.name, role, password));
  QUERN_TRY(note_change(*people, "user add", user.name));
  if (options.json) {
    print_json(user_json(user));
  } else {
    std::printf("added %s (%s)\n", user.name.c_str(), role_name(user.role));
  }
  return {};
}

Status list(const UserOptions& options) {
  QUERN_ASSIGN(const auto people, open_people_database());
  Json data = Json::array();
  for (const people::User& user : people->users()) {
    data.push_back(user_json(user));
    if (options.json) continue;
    std::printf("%-32s %-7s %-9s %s\n", user.name.c_str(), role_name(user.role), user.disabled ? "disabled" : "enabled",
                date_text(user.last_login).c_str());
  }
  if (options.json) print_json({{"data", data}});
  return {};
}

Status change_password(const UserOptions& options) {
  QUERN_ASSIGN(const auto people, open_people_database());
  QUERN_ASSIGN(const people::User user, people->user(options.name));
  QUERN_ASSIGN(const std::string password, read_password());
  QUERN_TRY(people->set_password(user.id, password));
  return note_change(*people, "user passwd", user.name);
}

Status reset_password(const UserOptions& options) {
  QUERN_ASSIGN(const auto people, open_people_database());
  QUERN_ASSIGN(const people::User user, people->user(options.name));
  const std::string password = people::random_token(12);
  QUERN_TRY(people->set_password(user.id, password, true));
  QUERN_TRY(people->change_user(user.id, {.disabled = false}));
  QUERN_TRY(note_change(*people, "user reset", user.name));
  std::printf("%s\n", password.c_str());
  std::fprintf(stderr, "quern: this password of %s must be changed when signing in\n", user.name.c_str());
  return {};
}

Status set_disabled(const UserOptions& options, bool disabled) {
  QUERN_ASSIGN(const auto people, open_people_database());
  QUERN_ASSIGN(const people::User user, people->user(options.name));
  QUERN_TRY(people->change_user(user.id, {.disabled = disabled}));
  return note_change(*people, disabled ? "user disable" : "user enable", user.name);
}

Status remove(const UserOptions& options) {
  QUERN_ASSIGN(const auto people, open_people_database());
  QUERN_ASSIGN(const people::User user, people->user(options.name));
  QUERN_TRY(people->remove_user(user.id));
  return note_change(*people, "user rm", user.name);
}

}  // namespace

void add_user(CLI::App& app, ExitCode& exit) {
  const auto options = std::make_shared<UserOptions>();
  CLI::App* group = app.add_subcommand("user", "users of the server (quern serve --auth)");
  group->require_subcommand(1);
  const auto command = [&](const char* name, const char* help, Status (*run)(const UserOptions&)) {
    CLI::App* one = group->add_subcommand(name, help);
    one->callback([options, one, run, &exit] { finish(run(*options), *one, exit); });
    return one;
  };
  const auto named = [&](CLI::App* one) {
    one->add_option("NAME", options->name, "the user's name")->required();
    return one;
  };
  CLI::App* adding = named(command("add", "add a user; the password is asked for, or the first line of stdin", add));
  adding->add_option("--role", options->role, "admin, user or viewer")->capture_default_str();
  adding->add_flag("--json", options->json, "print JSON");
  command("list", "all users", list)->add_flag("--json", options->json, "print JSON");
  named(command("passwd", "set a password; it is asked for, or the first line of stdin", change_password));
  named(command("reset", "print a new password, which must be changed when signing in", reset_password));
  named(command("disable", "keep a user and his keys out", [](const UserOptions& o) { return set_disabled(o, true); }));
  named(command("enable", "let him in again", [](const UserOptions& o) { return set_disabled(o, false); }));
  named(command("rm", "remove a user and his keys", remove));
}

}  // namespace quern::cli
