// The certificate of a machine that speaks TLS with its fleet's server and has none of its own: signed by itself, and
// trusted by the public key that the machine tells when it joins.
#pragma once

#include <filesystem>
#include <string>

#include "quern/status.h"

namespace quern {

struct NodeCertificate {
  std::filesystem::path cert_file, key_file;  // PEM
};

// Of `folder`: node.crt and node.key (mode 0600), made when they are not there. kIo naming the file.
Result<NodeCertificate> own_certificate(const std::filesystem::path& folder);

// "sha256//…": the SHA-256 of the certificate's public key (SubjectPublicKeyInfo) in base64, as curl writes pins; it
// stays when a certificate is renewed with the same key. kInvalidFile for no certificate.
Result<std::string> public_key_pin(const std::filesystem::path& cert_file);

}  // namespace quern
