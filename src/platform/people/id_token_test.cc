// ID tokens, signed here with real keys.
#include "platform/people/id_token.h"

#include <gtest/gtest.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>

#include <functional>
#include <memory>

#include "platform/people/oidc.h"
#include "platform/people/secrets.h"

namespace quern::people {
namespace {

using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

Key make_rsa(unsigned bits = 2048) {
  return {EVP_PKEY_Q_keygen(nullptr, nullptr, "RSA", static_cast<size_t>(bits)), EVP_PKEY_free};
}
Key make_p256() {
  return {EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256"), EVP_PKEY_free};
}

std::string number(const Key& key, const char* name, int size = 0) {
  BIGNUM* value = nullptr;
  EVP_PKEY_get_bn_param(key.get(), name, &value);
  std::string bytes(static_cast<size_t>(size > 0 ? size : BN_num_bytes(value)), '\0');
  BN_bn2binpad(value, reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  BN_free(value);
  return base64url_encode(bytes);
}

Json rsa_jwk(const Key& key, const char* id) {
  return {{"kty", "RSA"},         {"kid", id}, {"use", "sig"}, {"alg", "RS256"}, {"n", number(key, "n")},
          {"e", number(key, "e")}};
}
Json p256_jwk(const Key& key, const char* id) {
  return {{"kty", "EC"}, {"kid", id}, {"crv", "P-256"}, {"x", number(key, "qx", 32)}, {"y", number(key, "qy", 32)}};
}

std::string raw_signature(const Key& key, const std::string& text) {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  size_t size = 0;
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  EVP_DigestSignInit(context, nullptr, EVP_sha256(), nullptr, key.get());
  EVP_DigestSign(context, nullptr, &size, bytes, text.size());
  std::string signature(size, '\0');
  EVP_DigestSign(context, reinterpret_cast<unsigned char*>(signature.data()), &size, bytes, text.size());
  signature.resize(size);
  EVP_MD_CTX_free(context);
  if (EVP_PKEY_get_base_id(key.get()) != EVP_PKEY_EC) return signature;
  const auto* der = reinterpret_cast<const unsigned char*>(signature.data());
  ECDSA_SIG* parts = d2i_ECDSA_SIG(nullptr, &der, static_cast<long>(signature.size()));
  std::string raw(64, '\0');
  BN_bn2binpad(ECDSA_SIG_get0_r(parts), reinterpret_cast<unsigned char*>(raw.data()), 32);
  BN_bn2binpad(ECDSA_SIG_get0_s(parts), reinterpret_cast<unsigned char*>(raw.data()) + 32, 32);
  ECDSA_SIG_free(parts);
  return raw;
}

std::string token(const Key& key, const Json& header, const Json& claims) {
  const std::string text = base64url_encode(dump_json(header)) + "." + base64url_encode(dump_json(claims));
  return text + "." + base64url_encode(raw_signature(key, text));
}

class IdTokenTest : public ::testing::Test {
 protected:
  Json claims_ = {
      {"iss", "https://issuer"}, {"aud", "us"}, {"sub", "42"}, {"nonce", "n"}, {"iat", 1000}, {"exp", 2000}};
  IdTokenRules rules_{.issuer = "https://issuer", .client_id = "us", .nonce = "n", .now = 1500};
  Key rsa_ = make_rsa(), p256_ = make_p256();
  Json keys_ = {{"keys", {rsa_jwk(rsa_, "r"), p256_jwk(p256_, "e")}}};
  Json rs256_ = {{"alg", "RS256"}, {"kid", "r"}}, es256_ = {{"alg", "ES256"}, {"kid", "e"}};

  ErrorCode code(const std::string& text) {
    const auto claims = verify_id_token(text, keys_, rules_);
    EXPECT_FALSE(claims) << text;
    return claims ? ErrorCode::kInternal : claims.error().code;
  }
};

TEST_F(IdTokenTest, BothAlgorithms) {
  EXPECT_TRUE(verify_id_token(token(rsa_, rs256_, claims_), keys_, rules_));
  EXPECT_TRUE(verify_id_token(token(p256_, es256_, claims_), keys_, rules_));
  EXPECT_TRUE(verify_id_token(token(p256_, {{"alg", "ES256"}}, claims_), keys_, rules_));  // an id need not be told
}

TEST_F(IdTokenTest, AForeignSignatureIsRefused) {
  const Key other_rsa = make_rsa(), other_p256 = make_p256();
  EXPECT_EQ(code(token(other_rsa, rs256_, claims_)), ErrorCode::kPermissionDenied);
  EXPECT_EQ(code(token(other_p256, es256_, claims_)), ErrorCode::kPermissionDenied);
  EXPECT_EQ(code(token(rsa_, {{"alg", "RS256"}, {"kid", "new"}}, claims_)), ErrorCode::kNotFound);
  // The classic: HMAC with the public key as its secret; no algorithm; a key of another kind.
  const std::string text =
      base64url_encode(R"({"alg":"HS256","kid":"r"})") + "." + base64url_encode(dump_json(claims_));
  EXPECT_EQ(code(text + "." + base64url_encode(hmac_sha256(dump_json(keys_["keys"][0]), text))),
            ErrorCode::kPermissionDenied);
  EXPECT_EQ(code(base64url_encode(R"({"alg":"none"})") + "." + base64url_encode(dump_json(claims_)) + "."),
            ErrorCode::kPermissionDenied);
  EXPECT_NE(code(token(rsa_, {{"alg", "ES256"}, {"kid", "r"}}, claims_)), ErrorCode::kInternal);
  EXPECT_EQ(code(token(rsa_, {{"alg", "RS256"}, {"kid", "r"}, {"crit", {"x"}}}, claims_)),
            ErrorCode::kPermissionDenied);
  std::string changed = token(rsa_, rs256_, claims_);
  changed[changed.find('.') + 5] ^= 1;
  EXPECT_EQ(code(changed), ErrorCode::kPermissionDenied);
}

TEST_F(IdTokenTest, WeakAndBrokenKeysAreNotUsed) {
  const Key weak = make_rsa(1024);
  keys_["keys"][0] = rsa_jwk(weak, "r");
  EXPECT_EQ(code(token(weak, rs256_, claims_)), ErrorCode::kPermissionDenied);
  for (const Json& keys :
       {Json(), Json::array(), Json{{"keys", 1}}, Json{{"keys", {1, nullptr, {{"kty", 7}}}}},
        Json{{"keys", {{{"kty", "EC"}, {"kid", "e"}, {"crv", "P-256"}, {"x", "AA"}, {"y", "AA"}}}}}}) {
    EXPECT_FALSE(verify_id_token(token(p256_, es256_, claims_), keys, rules_)) << dump_json(keys);
  }
}

TEST_F(IdTokenTest, EveryClaimIsLookedAt) {
  const std::pair<const char*, Json> wrong[] = {{"iss", "https://other"},
                                                {"iss", nullptr},
                                                {"aud", "them"},
                                                {"aud", {"them"}},
                                                {"aud", {"us", "them"}},
                                                {"azp", "them"},
                                                {"sub", ""},
                                                {"sub", 42},
                                                {"nonce", "m"},
                                                {"nonce", nullptr},
                                                {"exp", 1440},
                                                {"exp", "2000"},
                                                {"exp", nullptr},
                                                {"iat", 1561},
                                                {"iat", nullptr},
                                                {"nbf", 1561},
                                                {"sub", std::string(256, 's')}};
  for (const auto& [name, value] : wrong) {
    Json claims = claims_;
    claims[name] = value;
    EXPECT_EQ(code(token(p256_, es256_, claims)), ErrorCode::kPermissionDenied) << name << " " << dump_json(value);
  }
  Json several = claims_;
  several["aud"] = {"us", "them"};
  several["azp"] = "us";
  EXPECT_TRUE(verify_id_token(token(p256_, es256_, several), keys_, rules_));
  claims_["exp"] = 1441;  // within a minute
  EXPECT_TRUE(verify_id_token(token(p256_, es256_, claims_), keys_, rules_));
  rules_.nonce.clear();
  EXPECT_EQ(code(token(p256_, es256_, claims_)), ErrorCode::kPermissionDenied);
}

TEST(OidcRoles, TheHighestThatTheClaimGives) {
  OidcSettings settings{.role_claim = "realm.roles", .roles = *parse_role_map("staff=user,boss=admin,x=y=viewer")};
  const auto role = [&](const Json& claims) { return role_from_claims(claims, settings); };
  EXPECT_EQ(role({{"realm", {{"roles", {"staff", "boss"}}}}}), Role::kAdmin);
  EXPECT_EQ(role({{"realm", {{"roles", "staff"}}}}), Role::kUser);
  EXPECT_EQ(role({{"realm.roles", {"boss"}}}), Role::kAdmin);
  EXPECT_EQ(role({{"realm", {{"roles", {"x=y"}}}}}), Role::kViewer);
  EXPECT_EQ(role({{"realm", {"roles"}}}), Role::kViewer);
  settings.default_role.reset();
  EXPECT_EQ(role({{"roles", {"boss"}}}), std::nullopt);
  for (const char* bad : {"staff", "=user", "staff=root", "a=user,,b=user"}) EXPECT_FALSE(parse_role_map(bad)) << bad;
  EXPECT_TRUE(parse_role_map("")->empty());
}

TEST(Oidc, SettingsAreChecked) {
  const OidcSettings good{.issuer = "https://issuer/", .client_id = "us", .redirect_uri = "http://127.0.0.1/cb"};
  EXPECT_TRUE(Oidc::create(good));
  OidcSettings plain = good, nobody = good, nowhere = good;
  plain.issuer = "http://issuer.example";
  nobody.client_id.clear();
  nowhere.redirect_uri = "javascript:alert(1)";
  EXPECT_FALSE(Oidc::create(plain));
  EXPECT_FALSE(Oidc::create(nobody));
  EXPECT_FALSE(Oidc::create(nowhere));
}

TEST(Oidc, CodesAreGoodOnceAndForAMinute) {
  int64_t now = 1000;
  const auto oidc = Oidc::create({.issuer = "https://issuer", .client_id = "us", .redirect_uri = "https://us/cb"},
                                 [&now] { return now; });
  ASSERT_TRUE(oidc);
  const std::string code = (*oidc)->make_code("u"), late = (*oidc)->make_code("u");
  EXPECT_EQ((*oidc)->take_code(code), "u");
  EXPECT_EQ((*oidc)->take_code(code), std::nullopt);
  now += 60;
  EXPECT_EQ((*oidc)->take_code(late), std::nullopt);
}

}  // namespace
}  // namespace quern::people
