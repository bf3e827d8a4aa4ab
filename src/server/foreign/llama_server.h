// What llama-server names otherwise than vLLM and we do, and what it would pass over in silence.
#pragma once

#include "server/foreign/translation.h"

namespace quern::foreign {

ApiResult<std::unique_ptr<Translation>> tokenize_of_llama(const Asked& asked);
ApiResult<std::unique_ptr<Translation>> detokenize_of_llama(const Asked& asked);

// A chat or a completion: fields that it calls otherwise are renamed, those that it would ignore are refused by name.
ApiResult<std::unique_ptr<Translation>> fields_of_llama(const Asked& asked);
// Is one of those named anywhere in a body? Cheap; where none is, the body passes as it is.
bool names_strange_field(std::string_view body);

}  // namespace quern::foreign
