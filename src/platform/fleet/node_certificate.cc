#include "platform/fleet/node_certificate.h"

#include <fcntl.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <openssl/x509.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <vector>

#include "base/status.h"

namespace quern {
namespace {

namespace fs = std::filesystem;

constexpr long kValidSeconds = 20L * 365 * 24 * 3600;  // it is pinned, its end says nothing

struct CertificateFree {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using KeyPtr = std::unique_ptr<EVP_PKEY, CertificateFree>;
using CertificatePtr = std::unique_ptr<X509, CertificateFree>;
using FilePtr = std::unique_ptr<std::FILE, CertificateFree>;

// For this user alone, from the first byte.
FilePtr create_private(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  return FilePtr(fd < 0 ? nullptr : ::fdopen(fd, "w"));
}

CertificatePtr sign_own(EVP_PKEY* key) {
  CertificatePtr made(X509_new());
  if (!made) return nullptr;
  uint64_t serial = 0;
  RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof serial);
  X509_set_version(made.get(), X509_VERSION_3);
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(made.get()), serial >> 1);
  X509_gmtime_adj(X509_getm_notBefore(made.get()), -3600);  // clocks differ
  X509_gmtime_adj(X509_getm_notAfter(made.get()), kValidSeconds);
  X509_set_pubkey(made.get(), key);
  X509_NAME* name = X509_get_subject_name(made.get());
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("quern worker"), -1, -1,
                             0);
  X509_set_issuer_name(made.get(), name);
  return X509_sign(made.get(), key, EVP_sha256()) > 0 ? std::move(made) : nullptr;
}

}  // namespace

Result<NodeCertificate> own_certificate(const fs::path& folder) {
  NodeCertificate files{.cert_file = folder / "node.crt", .key_file = folder / "node.key"};
  std::error_code error;
  if (fs::exists(files.cert_file, error) && fs::exists(files.key_file, error)) return files;
  fs::create_directories(folder, error);
  const KeyPtr key(EVP_EC_gen("P-256"));
  const CertificatePtr made = key ? sign_own(key.get()) : nullptr;
  if (!made) return make_error(ErrorCode::kInternal, "TLS: no certificate can be made");
  {
    const FilePtr file = create_private(files.key_file);
    if (!file || PEM_write_PrivateKey(file.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) != 1) {
      return io_error(fmt::format("{}: cannot write", files.key_file.string()));
    }
  }
  const FilePtr file = create_private(files.cert_file);
  if (!file || PEM_write_X509(file.get(), made.get()) != 1) {
    return io_error(fmt::format("{}: cannot write", files.cert_file.string()));
  }
  return files;
}

Result<std::string> public_key_pin(const fs::path& cert_file) {
  const FilePtr file(std::fopen(cert_file.c_str(), "re"));
  const CertificatePtr read(file ? PEM_read_X509(file.get(), nullptr, nullptr, nullptr) : nullptr);
  if (!read) return invalid_file(fmt::format("{}: is no certificate in PEM", cert_file.string()));
  unsigned char* bytes = nullptr;
  const int size = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(read.get()), &bytes);
  if (size <= 0) return invalid_file(fmt::format("{}: has no public key", cert_file.string()));
  unsigned char hash[SHA256_DIGEST_LENGTH];
  SHA256(bytes, static_cast<size_t>(size), hash);
  OPENSSL_free(bytes);
  char text[4 * ((SHA256_DIGEST_LENGTH + 2) / 3) + 1];
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text), hash, sizeof hash);
  return "sha256//" + std::string(text);
}

}  // namespace quern
