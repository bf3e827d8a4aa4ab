// People of `quern serve`: whether they are asked who they are, where they sign in, and the first admin's link.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "command.h"
#include "server/app.h"
#include "server/http/server.h"
#include "server/log.h"

namespace quern::cli {

struct ServePeopleOptions {
  std::string auth = "auto";  // auto, on, off
  std::vector<std::string> trusted_proxies;
  std::string oidc_issuer, oidc_client_id, oidc_redirect_uri;  // the secret comes by the environment alone
  std::string oidc_scopes = "openid profile email";
  std::string oidc_role_claim = "groups";
  std::string oidc_role_map;
  std::string oidc_default_role = "viewer";  // or none
};

void add_people_options(CLI::App& command, ServePeopleOptions& options);

// Only programs of this machine can ask.
bool is_local(const http::ServerOptions& http);

// Fills people, oidc and trusted_proxies of `app`. kInvalidArgument naming the option.
Status open_people(const ServePeopleOptions& options, const http::ServerOptions& http, AppOptions& app);

// While there is no admin: writes the link by which the first one comes in. It holds once, for a day, until the next
// start.
Status tell_setup_link(people::People* people, const std::string& address, const std::string& root_path,
                       const Log& log);

}  // namespace quern::cli
