#include <openssl/evp.h>

#include <array>
#include <cstdio>
#include <memory>
#include <vector>

#include "base/status.h"
#include "platform/http_client.h"

namespace quern {

Result<std::string> file_sha256(const std::filesystem::path& path) {
  struct FileCloser {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  const std::unique_ptr<std::FILE, FileCloser> file(std::fopen(path.c_str(), "rb"));
  if (!file) return io_error(fmt::format("{}: cannot read", path.string()));
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr);
  std::vector<unsigned char> buffer(1u << 20);
  for (;;) {
    const size_t n = std::fread(buffer.data(), 1, buffer.size(), file.get());
    if (n == 0) break;
    EVP_DigestUpdate(context.get(), buffer.data(), n);
  }
  if (std::ferror(file.get()) != 0) return io_error(fmt::format("{}: cannot read", path.string()));
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  EVP_DigestFinal_ex(context.get(), digest.data(), &length);
  std::string hex;
  for (unsigned i = 0; i < length; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

}  // namespace quern
