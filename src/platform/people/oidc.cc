#include "platform/people/oidc.h"

#include <algorithm>
#include <chrono>

#include "base/status.h"
#include "platform/http_client.h"
#include "platform/model_name.h"
#include "platform/people/id_token.h"
#include "platform/people/jwt.h"
#include "platform/people/secrets.h"

namespace quern::people {
namespace {

constexpr size_t kPendingMax = 1000, kCodesMax = 1000, kDocumentMax = 1u << 20;
constexpr int64_t kPendingSeconds = 600, kCodeSeconds = 60, kProviderSeconds = 3600;

HttpOptions http_options() {
  return {.tries_max = 1, .stall_seconds_max = 10, .seconds_max = 10};
}

std::unexpected<Error> not_signed_in(std::string message) {
  return make_error(ErrorCode::kPermissionDenied, std::move(message));
}
std::unexpected<Error> unavailable(std::string message) {
  return make_error(ErrorCode::kUnavailable, std::move(message));
}

std::string percent_encoded(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || std::string_view("-._~").find(c) != std::string_view::npos) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", byte);
    }
  }
  return out;
}

std::string form(const std::vector<std::pair<std::string, std::string>>& fields) {
  std::string out;
  for (const auto& [name, value] : fields) {
    out += fmt::format("{}{}={}", out.empty() ? "" : "&", name, percent_encoded(value));
  }
  return out;
}

std::string base64(std::string_view bytes) {
  std::string text = base64url_encode(bytes);
  std::ranges::replace(text, '-', '+');
  std::ranges::replace(text, '_', '/');
  while (text.size() % 4 != 0) text += '=';
  return text;
}

Result<Json> get_object(const std::string& url) {
  QUERN_ASSIGN(const HttpDocument document, http_get(url, http_options(), kDocumentMax));
  auto json = parse_json(document.body, url);
  if (!json || !json->is_object()) return unavailable(fmt::format("{}: not a JSON object", url));
  return std::move(*json);
}

// The place of a claim: dots lead into objects, but a name that has dots itself is found first.
const Json* claim_at(const Json& claims, std::string_view path) {
  const Json* place = &claims;
  while (place->is_object()) {
    if (const auto whole = place->find(path); whole != place->end()) return &*whole;
    const size_t dot = path.find('.');
    if (dot == std::string_view::npos) return nullptr;
    const auto inner = place->find(path.substr(0, dot));
    if (inner == place->end()) return nullptr;
    place = &*inner;
    path.remove_prefix(dot + 1);
  }
  return nullptr;
}

template <class Map, class Until>
void make_room(Map& map, size_t size_max, int64_t now, const Until& until) {
  std::erase_if(map, [&](const auto& item) { return until(item.second) <= now; });
  while (map.size() >= size_max) {
    map.erase(
        std::ranges::min_element(map, [&](const auto& a, const auto& b) { return until(a.second) < until(b.second); }));
  }
}

}  // namespace

Result<std::vector<std::pair<std::string, Role>>> parse_role_map(const std::string& text) {
  std::vector<std::pair<std::string, Role>> roles;
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view entry = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    const size_t equals = entry.rfind('=');
    if (equals == std::string_view::npos || equals == 0) {
      return invalid_argument(fmt::format("role map: '{:.64}' is not VALUE=ROLE", entry));
    }
    QUERN_ASSIGN(const Role role, parse_role(entry.substr(equals + 1)));
    roles.emplace_back(std::string(entry.substr(0, equals)), role);
  }
  return roles;
}

std::optional<Role> role_from_claims(const Json& claims, const OidcSettings& settings) {
  std::optional<Role> best;
  const Json* claim = claim_at(claims, settings.role_claim);
  const auto has = [&](const std::string& value) {
    if (claim == nullptr) return false;
    if (claim->is_string()) return *claim == value;
    return claim->is_array() && std::ranges::find(*claim, Json(value)) != claim->end();
  };
  for (const auto& [value, role] : settings.roles) {
    if (has(value) && (!best || role < *best)) best = role;  // kAdmin is the first
  }
  return best ? best : settings.default_role;
}

Result<std::unique_ptr<Oidc>> Oidc::create(OidcSettings settings, std::function<int64_t()> now) {
  while (settings.issuer.ends_with('/')) settings.issuer.pop_back();
  if (!is_allowed_url(settings.issuer)) {
    return invalid_argument(fmt::format("oidc issuer {}: must be https, or http to this machine", settings.issuer));
  }
  if (settings.client_id.empty()) return invalid_argument("oidc client id: is missing");
  if (!is_allowed_url(settings.redirect_uri)) {
    return invalid_argument(
        fmt::format("oidc redirect uri {}: must be https, or http to this machine", settings.redirect_uri));
  }
  if (!now) {
    now = [] {
      const auto since = std::chrono::system_clock::now().time_since_epoch();
      return static_cast<int64_t>(std::chrono::duration_cast<std::chrono::seconds>(since).count());
    };
  }
  return std::unique_ptr<Oidc>(new Oidc(std::move(settings), std::move(now)));
}

Result<Oidc::Provider> Oidc::provider(bool fresh_keys) {
  {
    const std::lock_guard lock(mutex_);
    if (provider_ && !fresh_keys && now_() - provider_->read < kProviderSeconds) return *provider_;
  }
  QUERN_ASSIGN(const Json about, get_object(settings_.issuer + "/.well-known/openid-configuration"));
  std::string named = text_claim(about, "issuer");
  while (named.ends_with('/')) named.pop_back();
  if (named != settings_.issuer) return unavailable(fmt::format("{} calls itself {:.200}", settings_.issuer, named));
  Provider provider{.issuer = text_claim(about, "issuer"),
                    .authorization_endpoint = text_claim(about, "authorization_endpoint"),
                    .token_endpoint = text_claim(about, "token_endpoint"),
                    .jwks_uri = text_claim(about, "jwks_uri"),
                    .keys = {},
                    .read = now_()};
  for (const std::string& url : {provider.authorization_endpoint, provider.token_endpoint, provider.jwks_uri}) {
    if (!is_allowed_url(url)) return unavailable(fmt::format("{}: its endpoints must be https", settings_.issuer));
  }
  QUERN_ASSIGN(provider.keys, get_object(provider.jwks_uri));
  const std::lock_guard lock(mutex_);
  provider_ = provider;
  return provider;
}

Result<Oidc::Beginning> Oidc::begin() {
  QUERN_ASSIGN(const Provider known, provider(false));
  const std::string state = random_token(32), verifier = random_token(32), nonce = random_token(24);
  {
    const std::lock_guard lock(mutex_);
    make_room(pending_, kPendingMax, now_(), [](const Pending& pending) { return pending.until; });
    pending_[state] = {verifier, nonce, now_() + kPendingSeconds};
  }
  const char* joint = known.authorization_endpoint.find('?') == std::string::npos ? "?" : "&";
  const std::string query = form({{"response_type", "code"},
                                  {"client_id", settings_.client_id},
                                  {"redirect_uri", settings_.redirect_uri},
                                  {"scope", settings_.scopes},
                                  {"state", state},
                                  {"nonce", nonce},
                                  {"code_challenge", base64url_encode(sha256_bytes(verifier))},
                                  {"code_challenge_method", "S256"}});
  return Beginning{.url = known.authorization_endpoint + joint + query, .state = state};
}

// The ID token that a code is worth (section 3.1.3; the secret by HTTP Basic, RFC 6749, section 2.3.1).
Result<std::string> Oidc::exchange(const Provider& provider, const std::string& code,
                                   const std::string& verifier) const {
  std::vector<std::pair<std::string, std::string>> fields = {{"grant_type", "authorization_code"},
                                                             {"code", code},
                                                             {"redirect_uri", settings_.redirect_uri},
                                                             {"code_verifier", verifier}};
  HttpOptions options = http_options();
  options.headers.emplace_back("Accept: application/json");
  if (settings_.client_secret.empty()) {
    fields.emplace_back("client_id", settings_.client_id);
  } else {
    options.headers.push_back("Authorization: Basic " + base64(percent_encoded(settings_.client_id) + ":" +
                                                               percent_encoded(settings_.client_secret)));
  }
  auto document = http_post(provider.token_endpoint, "application/x-www-form-urlencoded", form(fields), options);
  if (!document && document.error().code == ErrorCode::kUnavailable) return std::unexpected(document.error());
  if (!document) return not_signed_in("the provider does not take the code");
  const auto answer = parse_json(document->body, provider.token_endpoint);
  if (!answer || !answer->is_object()) return unavailable("the provider's answer is no JSON");
  std::string token = text_claim(*answer, "id_token");
  if (token.empty()) return not_signed_in("the provider gave no ID token");
  return token;
}

Result<OidcIdentity> Oidc::finish(const std::string& state, const std::string& cookie, const std::string& code) {
  Pending pending;
  {
    const std::lock_guard lock(mutex_);
    const auto found = pending_.find(state);
    if (found == pending_.end() || found->second.until <= now_() || !equal_secrets(state, cookie)) {
      return not_signed_in("state: this sign-in was not begun here, or too long ago");
    }
    pending = found->second;
    pending_.erase(found);
  }
  QUERN_ASSIGN(Provider known, provider(false));
  QUERN_ASSIGN(const std::string token, exchange(known, code, pending.verifier));
  const IdTokenRules rules{
      .issuer = known.issuer, .client_id = settings_.client_id, .nonce = pending.nonce, .now = now_()};
  auto claims = verify_id_token(token, known.keys, rules);
  if (!claims && claims.error().code == ErrorCode::kNotFound) {
    QUERN_ASSIGN(known, provider(true));  // it may have changed its keys
    claims = verify_id_token(token, known.keys, rules);
  }
  if (!claims) return not_signed_in(claims.error().message);
  const auto role = role_from_claims(*claims, settings_);
  if (!role) return not_signed_in("your account has no role here");
  const std::string subject = text_claim(*claims, "sub");
  OidcIdentity identity{
      .subject = settings_.issuer + " " + subject, .name = text_claim(*claims, "preferred_username"), .role = *role};
  if (identity.name.empty()) identity.name = text_claim(*claims, "email");
  if (identity.name.empty()) identity.name = subject;
  return identity;
}

std::string Oidc::make_code(const std::string& user_id) {
  const std::string code = random_token(32);
  const std::lock_guard lock(mutex_);
  make_room(codes_, kCodesMax, now_(), [](const auto& entry) { return entry.second; });
  codes_[sha256_hex(code)] = {user_id, now_() + kCodeSeconds};
  return code;
}

std::optional<std::string> Oidc::take_code(const std::string& code) {
  const std::lock_guard lock(mutex_);
  const auto found = codes_.find(sha256_hex(code));
  if (found == codes_.end()) return std::nullopt;
  const auto [user, until] = found->second;
  codes_.erase(found);
  return until > now_() ? std::optional(user) : std::nullopt;
}

}  // namespace quern::people
