// What a quantization would make of a model's matrices: `quern inspect --quantization`.
#pragma once

#include <string>

#include "base/json.h"
#include "models/loader.h"
#include "quern/status.h"

namespace quern::cli {

// {"path","quantization","tensors":[{"name","dtype","held_as","max_error","rms_error","relative_rms_error"}],
//  "rounded","kept_quantized","kept_odd","bytes","bytes_rounded","weight_bytes_per_token"?}
// Errors: those of parse_quant_scheme() and of loading. Takes a pass over the weights and the memory of one row.
Result<Json> quantization_json(const ModelSource& source, const std::string& scheme);

// The same for people: a line per matrix, the worst last, and a sum.
std::string quantization_text(const Json& report);

}  // namespace quern::cli
