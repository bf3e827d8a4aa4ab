#include "serve_people.h"

#include "base/status.h"
#include "platform/home.h"

namespace quern::cli {
namespace {

Result<std::shared_ptr<people::Oidc>> open_oidc(const ServePeopleOptions& options) {
  people::OidcSettings settings{.issuer = options.oidc_issuer,
                                .client_id = options.oidc_client_id,
                                .client_secret = environment("QUERN_OIDC_CLIENT_SECRET").value_or(""),
                                .redirect_uri = options.oidc_redirect_uri,
                                .scopes = options.oidc_scopes,
                                .role_claim = options.oidc_role_claim};
  auto roles = people::parse_role_map(options.oidc_role_map);
  if (!roles) return std::unexpected(prefixed(std::move(roles).error(), "--oidc-role-map"));
  settings.roles = std::move(*roles);
  settings.default_role.reset();
  if (options.oidc_default_role != "none") {
    auto role = people::parse_role(options.oidc_default_role);
    if (!role) return std::unexpected(prefixed(std::move(role).error(), "--oidc-default-role"));
    settings.default_role = *role;
  }
  QUERN_ASSIGN(auto oidc, people::Oidc::create(std::move(settings)));
  return std::shared_ptr<people::Oidc>(std::move(oidc));
}

}  // namespace

bool is_local(const http::ServerOptions& http) {
  return !http.unix_socket.empty() || http.host == "localhost" || http.host == "::1" || http.host.starts_with("127.");
}

void add_people_options(CLI::App& command, ServePeopleOptions& options) {
  command
      .add_option("--auth", options.auth,
                  "users, keys and roles: on, off, or auto: off on a loopback address or unix socket, else on")
      ->check(CLI::IsMember({"auto", "on", "off"}))
      ->capture_default_str();
  command
      .add_option("--trusted-proxies", options.trusted_proxies,
                  "addresses or networks of proxies whose X-Forwarded-For says who the client is")
      ->delimiter(',');
  const auto add = [&](const char* name, const char* variable, std::string& target, const char* help) {
    command.add_option(name, target, help)->envname(variable)->capture_default_str();
  };
  add("--oidc-issuer", "QUERN_OIDC_ISSUER", options.oidc_issuer,
      "sign in with this OpenID provider, by its issuer URL");
  add("--oidc-client-id", "QUERN_OIDC_CLIENT_ID", options.oidc_client_id,
      "our name there; QUERN_OIDC_CLIENT_SECRET is its secret");
  add("--oidc-redirect-uri", "QUERN_OIDC_REDIRECT_URI", options.oidc_redirect_uri,
      "where it sends browsers back to: https://THIS-SERVER/api/oidc/callback");
  add("--oidc-scopes", "QUERN_OIDC_SCOPES", options.oidc_scopes, "what is asked of it");
  add("--oidc-role-claim", "QUERN_OIDC_ROLE_CLAIM", options.oidc_role_claim,
      "claim that says what somebody is; dots lead into objects");
  add("--oidc-role-map", "QUERN_OIDC_ROLE_MAP", options.oidc_role_map,
      "VALUE=ROLE,…: values of that claim and the role each gives: admin, user or viewer");
  add("--oidc-default-role", "QUERN_OIDC_DEFAULT_ROLE", options.oidc_default_role,
      "of whoever has none of them; none: they stay out");
}

Status open_people(const ServePeopleOptions& options, const http::ServerOptions& http, AppOptions& app) {
  for (const std::string& text : options.trusted_proxies) {
    auto network = people::parse_network(text);
    if (!network) return std::unexpected(prefixed(std::move(network).error(), "--trusted-proxies"));
    app.trusted_proxies.push_back(*network);
  }
  if (options.auth == "off" || (options.auth == "auto" && is_local(http))) {
    if (options.oidc_issuer.empty()) return {};
    return invalid_argument("--oidc-issuer: needs --auth on");
  }
  QUERN_ASSIGN(auto people, people::People::open({.folder = quern_home()}));
  app.people = std::move(people);
  if (options.oidc_issuer.empty()) return {};
  QUERN_ASSIGN(app.oidc, open_oidc(options));
  return {};
}

Status tell_setup_link(people::People* people, const std::string& address, const std::string& root_path,
                       const Log& log) {
  if (people == nullptr || !people->needs_setup()) return {};
  QUERN_ASSIGN(const std::string token, people->make_setup_token());
  std::string base = address.starts_with("unix:") ? "" : address;
  // Nobody can go to "any address"; on this machine this one is right.
  for (const std::string any : {"//0.0.0.0:", "//[::]:"}) {
    if (const size_t at = base.find(any); at != std::string::npos) base.replace(at, any.size(), "//127.0.0.1:");
  }
  log.write(LogLevel::kNotice,
            fmt::format("there is no admin yet: {}{}/setup?token={} makes one, once, within 24 hours", base, root_path,
                        token));
  return {};
}

}  // namespace quern::cli
