// A family of models: how its files name themselves, how their configuration maps to ModelConfig, how they name
// tensors. To add one: a file under families/ that defines its Family, and a line in families/registry.cc.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "models/config_reader.h"
#include "models/model_config.h"
#include "models/tensor_names.h"

namespace quern {

struct Family {
  std::string_view name;                          // our name, usually Hugging Face's model_type
  std::array<std::string_view, 4> hf_types = {};  // values of model_type
  // model_type of multimodal folders whose "text_config" is of this family: their text part alone is loaded.
  std::array<std::string_view, 4> hf_wrapper_types = {};
  std::array<std::string_view, 4> gguf_architectures = {};  // values of general.architecture
  // Null where the family does not occur in that kind of file.
  void (*read_hf)(HfConfigReader& reader, ModelConfig& config) = nullptr;
  void (*read_gguf)(GgufConfigReader& reader, ModelConfig& config) = nullptr;
  // Null: the defaults of tensor_names.h.
  void (*hf_names)(const ModelConfig& config, TensorNames& names) = nullptr;
  void (*gguf_names)(const ModelConfig& config, TensorNames& names) = nullptr;
};

std::span<const Family* const> families();
const Family* find_hf_family(std::string_view model_type);  // null when unknown
const Family* find_hf_wrapper_family(std::string_view model_type);
const Family* find_gguf_family(std::string_view architecture);  // null when unknown
const Family* find_family(std::string_view name);               // null when unknown

}  // namespace quern
