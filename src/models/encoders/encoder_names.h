// How files name an encoder's tensors. "{}" stands for the layer; an empty name: the family has no such tensor. Names
// that begin with "/" are used without the prefix.
#pragma once

#include <string_view>
#include <vector>

#include "models/encoders/encoder_config.h"
#include "models/tensor_names.h"

namespace quern {

struct EncoderNames {
  TensorNames common;  // prefixes, embedding table, what may be left over
  std::string_view positions, types, embed_norm;
  std::string_view query, key, value;
  std::string_view qkv;  // [3 * hidden, hidden]: query rows, key rows, value rows
  std::string_view attention_output, attention_norm;
  std::string_view up, gate, gate_up, down, mlp_norm;
  std::string_view final_norm;
  std::string_view head_dense, head_norm, head_out;
};

EncoderNames encoder_names(const EncoderConfig& config, bool gguf);

}  // namespace quern
