// What `quern inspect` says about a container: the same facts as JSON and as text for people.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/json.h"
#include "formats/gguf/gguf_file.h"
#include "formats/safetensors/safetensors_file.h"
#include "quern/status.h"

namespace quern::cli {

// An opened container. Exactly one of the files is there.
struct Inspected {
  std::filesystem::path path;
  std::unique_ptr<GgufFile> gguf;
  std::unique_ptr<SafetensorsFile> safetensors;
  std::optional<Json> config;  // config.json of a folder that has one

  const TensorFile& tensors() const;
};

// A .gguf file (part 1 of a split set), a .safetensors file, an index, or a folder; a file of another name is told by
// its first bytes. Errors: kInvalidFile, kNotFound, kIo.
Result<Inspected> open_inspected(const std::filesystem::path& path);

// {"path","container","version"?,"parts"?,"metadata":{…},"config"?,"tensors":[{"name","dtype","shape","bytes"}],
//  "num_tensors","parameters","bytes","dtypes":{DTYPE:{"tensors","parameters","bytes"}}}
Json inspect_json(const Inspected& inspected);

// Long strings and arrays are shortened; control characters of the file never reach the terminal.
std::string inspect_text(const Inspected& inspected);

Json tensor_json(const TensorView& tensor);  // {"name","dtype","shape","bytes"}

}  // namespace quern::cli
