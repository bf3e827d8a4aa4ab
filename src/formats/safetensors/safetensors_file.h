// Reader of safetensors: one file, or a set of shards named by model.safetensors.index.json. Mapped, never copied.
// Source: the safetensors format description (Hugging Face, README "Format").
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "formats/tensor_file.h"
#include "quern/status.h"

namespace quern {

class SafetensorsFile final : public TensorFile {
 public:
  // `path`: a .safetensors file, an index.json, or a folder that has model.safetensors or its index (any other single
  // *.safetensors file when neither is there). Shard names must be plain file names inside the folder.
  static Result<std::unique_ptr<SafetensorsFile>> open(const std::filesystem::path& path);
  static Result<std::unique_ptr<SafetensorsFile>> parse(std::span<const std::byte> bytes, std::string_view name);

  ~SafetensorsFile() override;
  std::span<const TensorView> tensors() const override;
  const TensorView* find(std::string_view name) const override;
  const std::map<std::string, std::string>& metadata() const;  // "__metadata__", all shards merged

 private:
  SafetensorsFile();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quern
