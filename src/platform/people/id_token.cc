#include "platform/people/id_token.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/rsa.h>

#include <algorithm>
#include <memory>

#include "base/status.h"
#include "platform/people/jwt.h"
#include "platform/people/secrets.h"

namespace quern::people {
namespace {

constexpr int64_t kClockSkew = 60;
constexpr size_t kRsaBytesMin = 256, kRsaBytesMax = 1024;  // 2048 to 8192 bits
constexpr size_t kP256Bytes = 32;

struct Deleter {
  void operator()(BIGNUM* p) const { BN_free(p); }
  void operator()(EVP_PKEY* p) const { EVP_PKEY_free(p); }
  void operator()(EVP_PKEY_CTX* p) const { EVP_PKEY_CTX_free(p); }
  void operator()(EVP_MD_CTX* p) const { EVP_MD_CTX_free(p); }
  void operator()(OSSL_PARAM_BLD* p) const { OSSL_PARAM_BLD_free(p); }
  void operator()(OSSL_PARAM* p) const { OSSL_PARAM_free(p); }
  void operator()(ECDSA_SIG* p) const { ECDSA_SIG_free(p); }
  void operator()(unsigned char* p) const { OPENSSL_free(p); }
};
template <class T>
using Owned = std::unique_ptr<T, Deleter>;

std::unexpected<Error> refused(std::string what) {
  return make_error(ErrorCode::kPermissionDenied, "ID token: " + std::move(what));
}

const unsigned char* data_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

Owned<BIGNUM> number_of(std::string_view bytes) {
  return Owned<BIGNUM>(BN_bin2bn(data_of(bytes), static_cast<int>(bytes.size()), nullptr));
}

Owned<EVP_PKEY> key_from(const char* type, OSSL_PARAM_BLD* builder) {
  const Owned<OSSL_PARAM> parameters(OSSL_PARAM_BLD_to_param(builder));
  const Owned<EVP_PKEY_CTX> context(EVP_PKEY_CTX_new_from_name(nullptr, type, nullptr));
  EVP_PKEY* key = nullptr;
  if (!parameters || !context || EVP_PKEY_fromdata_init(context.get()) != 1 ||
      EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_PUBLIC_KEY, parameters.get()) != 1) {
    return nullptr;
  }
  return Owned<EVP_PKEY>(key);
}

Owned<EVP_PKEY> rsa_key(const Json& jwk) {
  const auto n = base64url_decode(text_claim(jwk, "n")), e = base64url_decode(text_claim(jwk, "e"));
  if (!n || !e || n->size() < kRsaBytesMin || n->size() > kRsaBytesMax || e->empty() || e->size() > 8) return nullptr;
  const Owned<OSSL_PARAM_BLD> builder(OSSL_PARAM_BLD_new());
  const Owned<BIGNUM> modulus = number_of(*n), exponent = number_of(*e);
  if (!builder || OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_N, modulus.get()) != 1 ||
      OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_E, exponent.get()) != 1) {
    return nullptr;
  }
  return key_from("RSA", builder.get());
}

Owned<EVP_PKEY> p256_key(const Json& jwk) {
  const auto x = base64url_decode(text_claim(jwk, "x")), y = base64url_decode(text_claim(jwk, "y"));
  if (text_claim(jwk, "crv") != "P-256" || !x || !y || x->size() != kP256Bytes || y->size() != kP256Bytes)
    return nullptr;
  const std::string point = "\x04" + *x + *y;  // uncompressed (SEC 1, section 2.3.3)
  const Owned<OSSL_PARAM_BLD> builder(OSSL_PARAM_BLD_new());
  if (!builder || OSSL_PARAM_BLD_push_utf8_string(builder.get(), OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0) != 1 ||
      OSSL_PARAM_BLD_push_octet_string(builder.get(), OSSL_PKEY_PARAM_PUB_KEY, point.data(), point.size()) != 1) {
    return nullptr;
  }
  return key_from("EC", builder.get());
}

// JWS has r and s side by side (RFC 7518, section 3.4), OpenSSL wants them in DER.
std::string der_signature(std::string_view raw) {
  if (raw.size() != 2 * kP256Bytes) return "";
  const Owned<ECDSA_SIG> signature(ECDSA_SIG_new());
  Owned<BIGNUM> r = number_of(raw.substr(0, kP256Bytes)), s = number_of(raw.substr(kP256Bytes));
  if (!signature || ECDSA_SIG_set0(signature.get(), r.get(), s.get()) != 1) return "";
  static_cast<void>(r.release());  // the signature owns them now
  static_cast<void>(s.release());
  unsigned char* der = nullptr;
  const int size = i2d_ECDSA_SIG(signature.get(), &der);
  const Owned<unsigned char> owned(der);
  return size > 0 ? std::string(reinterpret_cast<const char*>(der), static_cast<size_t>(size)) : "";
}

bool signature_fits(const Json& jwk, const std::string& algorithm, const SignedToken& token) {
  const bool is_rsa = algorithm == "RS256";
  if (text_claim(jwk, "kty") != (is_rsa ? "RSA" : "EC")) return false;
  const Owned<EVP_PKEY> key = is_rsa ? rsa_key(jwk) : p256_key(jwk);
  const std::string signature = is_rsa ? token.signature : der_signature(token.signature);
  const Owned<EVP_MD_CTX> context(EVP_MD_CTX_new());
  return key && context && EVP_DigestVerifyInit(context.get(), nullptr, EVP_sha256(), nullptr, key.get()) == 1 &&
         EVP_DigestVerify(context.get(), data_of(signature), signature.size(), data_of(token.signed_part),
                          token.signed_part.size()) == 1;
}

bool names_audience(const Json& claims, const std::string& client_id) {
  const auto audience = claims.find("aud");
  if (audience == claims.end()) return false;
  if (audience->is_string()) return *audience == client_id;
  return audience->is_array() && std::ranges::find(*audience, Json(client_id)) != audience->end();
}

Status check_claims(const Json& claims, const IdTokenRules& rules) {
  if (text_claim(claims, "iss") != rules.issuer) return refused("another issuer");
  if (!names_audience(claims, rules.client_id)) return refused("made for another client");
  const std::string party = text_claim(claims, "azp");
  if (claims["aud"].is_array() && claims["aud"].size() > 1 && party != rules.client_id) {
    return refused("made for several clients, and not at our request");
  }
  if (!party.empty() && party != rules.client_id) return refused("made at another client's request");
  if (time_claim(claims, "exp", 0) + kClockSkew <= rules.now) return refused("has expired");
  if (time_claim(claims, "iat", INT64_MAX) > rules.now + kClockSkew) return refused("is of the future, or of no time");
  if (time_claim(claims, "nbf", 0) > rules.now + kClockSkew) return refused("is not valid yet");
  if (rules.nonce.empty() || !equal_secrets(text_claim(claims, "nonce"), rules.nonce)) return refused("another nonce");
  if (text_claim(claims, "sub").empty() || text_claim(claims, "sub").size() > 255) return refused("has no subject");
  return {};
}

}  // namespace

Result<Json> verify_id_token(std::string_view token, const Json& keys, const IdTokenRules& rules) {
  auto parsed = parse_token(token);
  if (!parsed) return refused(parsed.error().message);
  const std::string algorithm = text_claim(parsed->header, "alg"), id = text_claim(parsed->header, "kid");
  if (algorithm != "RS256" && algorithm != "ES256") return refused("signed by neither RS256 nor ES256");
  if (parsed->header.contains("crit")) return refused("has extensions that must be understood");
  const auto list = keys.is_object() ? keys.find("keys") : keys.end();
  if (list == keys.end() || !list->is_array()) return refused("the issuer's keys cannot be read");
  bool any = false;
  for (const Json& jwk : *list) {
    if (!jwk.is_object() || (!id.empty() && text_claim(jwk, "kid") != id)) continue;
    if (const std::string use = text_claim(jwk, "use"); !use.empty() && use != "sig") continue;
    if (const std::string made_for = text_claim(jwk, "alg"); !made_for.empty() && made_for != algorithm) continue;
    any = true;
    if (!signature_fits(jwk, algorithm, *parsed)) continue;
    QUERN_TRY(check_claims(parsed->claims, rules));
    return std::move(parsed->claims);
  }
  if (!any) return not_found("ID token: the issuer has no key of its id");
  return refused("the signature does not fit");
}

}  // namespace quern::people
