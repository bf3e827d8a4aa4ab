// Which files a hub's repository has, and which of them a model needs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "platform/http_client.h"
#include "platform/model_name.h"
#include "quern/status.h"

namespace quern {

struct RemoteFile {
  std::string path;  // inside the repository; checked to be a safe relative path
  std::string url;
  int64_t size = -1;
  std::string sha256;  // empty when the hub does not tell (small files outside LFS)
};
struct RemoteRepository {
  std::vector<RemoteFile> files;
  std::string revision;  // the commit that the listing is of, where the hub tells
  HttpOptions http;      // with the token of this hub
};

// Hugging Face: GET /api/models/{repo}/revision/{rev}?blobs=true. ModelScope: GET /api/v1/models/{repo}/repo/files.
Result<RemoteRepository> list_hf(const std::string& repository, const std::string& revision);
Result<RemoteRepository> list_modelscope(const std::string& repository, const std::string& revision);

// What a model needs. `wanted` empty: a folder's configuration, tokenizer and safetensors; of a repository that has
// only GGUF files the Q4_K_M one, else an error that lists them. A file name: that file, with all parts of a split set;
// or a quantisation ("Q4_K_M") that exactly one GGUF set has in its name. A set of which parts are missing: kNotFound.
Result<std::vector<RemoteFile>> choose_files(const RemoteRepository& repository, const std::string& wanted);

}  // namespace quern
