// Reader of GGUF v2 and v3, little-endian, whole or split. Mapped, never copied.
#pragma once

#include <filesystem>
#include <memory>

#include "formats/gguf/gguf_value.h"
#include "formats/tensor_file.h"
#include "quern/status.h"

namespace quern {

class GgufFile final : public TensorFile {
 public:
  // Opens a whole file, or a split set by any of its parts (`NAME-00001-of-0000N.gguf`; the others lie beside it;
  // split.no, split.count and split.tensors.count must agree; a name alone makes no part). Errors: kInvalidFile with
  // one line naming what is wrong, kIo, kNotFound. No allocation is larger than what the remaining bytes of the file
  // can justify.
  static Result<std::unique_ptr<GgufFile>> open(const std::filesystem::path& path);

  // The parser alone, for tests and fuzzing: `bytes` must outlive the result. `name` goes into error messages.
  static Result<std::unique_ptr<GgufFile>> parse(std::span<const std::byte> bytes, std::string_view name);

  ~GgufFile() override;
  std::span<const TensorView> tensors() const override;
  const TensorView* find(std::string_view name) const override;

  uint32_t version() const;
  uint32_t num_parts() const;
  const GgufMetadata& metadata() const;  // of part 1

 private:
  GgufFile();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quern
