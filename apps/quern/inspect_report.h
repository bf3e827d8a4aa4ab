// What `quern inspect` says about a container: the same facts as JSON and as text for people.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/json.h"
#include "models/loader.h"
#include "quern/status.h"

namespace quern::cli {

// An opened container: `source` has a GGUF or safetensors, and a folder's configuration where there is one.
struct Inspected {
  ModelSource source;
  std::optional<ModelConfig> model;  // of a model this program knows

  const TensorFile& tensors() const { return *source.tensors(); }
};

// A .gguf file (part 1 of a split set), a .safetensors file, an index, or a folder; a file of another name is told by
// its first bytes. Errors: kInvalidFile, kNotFound, kIo.
Result<Inspected> open_inspected(const std::filesystem::path& path);

// {"path","container","version"?,"parts"?,"metadata":{…},"config"?,"tensors":[{"name","dtype","shape","bytes"}],
//  "num_tensors","parameters","bytes","dtypes":{DTYPE:{"tensors","parameters","bytes"}},
//  "model"?:{"family","context_length","layers"},
//  "kv_cache"?:{"bytes_per_token","dtype","values_per_token_and_layer","latent"?,"bytes_per_token_as":{DTYPE:n}}}
Json inspect_json(const Inspected& inspected);

// Long strings and arrays are shortened; control characters of the file never reach the terminal.
std::string inspect_text(const Inspected& inspected);

Json tensor_json(const TensorView& tensor);  // {"name","dtype","shape","bytes"}

}  // namespace quern::cli
