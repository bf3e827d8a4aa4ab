// Writes one safetensors file.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>

#include "formats/byte_sink.h"
#include "quern/status.h"
#include "tensor/tensor_view.h"

namespace quern {

// As write_gguf: to a temporary name, then renamed. Tensors with wide elements stand first, else in the given order.
// Errors: kIo; kInvalidArgument for a dtype that safetensors does not know, a name that is reserved, occurs twice or is
// not UTF-8.
Status write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                         const std::map<std::string, std::string>& metadata = {});

// The same without the tensors in memory: `bytes` of the views are ignored; produce(i, sink) is called once per tensor,
// in the order of the file, and hands exactly the tensor's bytes to `sink`.
Status write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                         const std::map<std::string, std::string>& metadata, const TensorProducer& produce);

}  // namespace quern
