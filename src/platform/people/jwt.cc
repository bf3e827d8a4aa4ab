#include "platform/people/jwt.h"

#include "base/status.h"
#include "platform/people/secrets.h"

namespace quern::people {
namespace {

constexpr JsonLimits kLimits{.depth_max = 16, .bytes_max = kTokenBytesMax};

Result<Json> object_of(std::string_view part) {
  const auto text = base64url_decode(part);
  if (!text) return invalid_argument("token: not base64url");
  QUERN_ASSIGN(Json json, parse_json(*text, "token", kLimits));
  if (!json.is_object()) return invalid_argument("token: not an object");
  return json;
}

std::unexpected<Error> not_ours() {
  return make_error(ErrorCode::kPermissionDenied, "the token is not valid");
}

}  // namespace

Result<SignedToken> parse_token(std::string_view token) {
  if (token.size() > kTokenBytesMax) return invalid_argument("token: is too long");
  const size_t first = token.find('.');
  const size_t second = first == std::string_view::npos ? first : token.find('.', first + 1);
  if (second == std::string_view::npos || token.find('.', second + 1) != std::string_view::npos) {
    return invalid_argument("token: must have three parts");
  }
  SignedToken parsed;
  QUERN_ASSIGN(parsed.header, object_of(token.substr(0, first)));
  QUERN_ASSIGN(parsed.claims, object_of(token.substr(first + 1, second - first - 1)));
  auto signature = base64url_decode(token.substr(second + 1));
  if (!signature) return invalid_argument("token: not base64url");
  parsed.signed_part = std::string(token.substr(0, second));
  parsed.signature = std::move(*signature);
  return parsed;
}

std::string text_claim(const Json& claims, std::string_view name) {
  const auto found = claims.find(name);
  return found != claims.end() && found->is_string() ? found->get<std::string>() : std::string();
}

int64_t time_claim(const Json& claims, std::string_view name, int64_t otherwise) {
  const auto found = claims.find(name);
  if (found == claims.end()) return otherwise;
  if (found->is_number_integer()) return found->get<int64_t>();
  // NumericDate may have a fraction (RFC 7519, section 2).
  const double value = found->is_number_float() ? found->get<double>() : -1;
  return value >= 0 && value < 1e15 ? static_cast<int64_t>(value) : otherwise;
}

std::string sign_token(const Json& claims, std::string_view secret) {
  const Json header = {{"alg", "HS256"}, {"typ", "JWT"}};
  const std::string signed_part = base64url_encode(dump_json(header)) + "." + base64url_encode(dump_json(claims));
  return signed_part + "." + base64url_encode(hmac_sha256(secret, signed_part));
}

Result<Json> verify_token(std::string_view token, std::string_view secret, int64_t now) {
  auto parsed = parse_token(token);
  if (!parsed || text_claim(parsed->header, "alg") != "HS256") return not_ours();
  if (!equal_secrets(hmac_sha256(secret, parsed->signed_part), parsed->signature)) return not_ours();
  if (time_claim(parsed->claims, "exp", 0) <= now) {
    return make_error(ErrorCode::kDeadlineExceeded, "the token has expired");
  }
  return std::move(parsed->claims);
}

}  // namespace quern::people
