// Writes one safetensors file.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>

#include "quern/status.h"
#include "tensor/tensor_view.h"

namespace quern {

// As write_gguf: to a temporary name, then renamed. A dtype that safetensors does not know is kInvalidArgument.
Status write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                         const std::map<std::string, std::string>& metadata = {});

}  // namespace quern
