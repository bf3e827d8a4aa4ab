// Compiling grammars away from the threads that carry sockets.
#pragma once

#include <memory>
#include <string>

#include "quern/engine.h"
#include "server/api_error.h"
#include "server/http/message.h"

namespace quern {

// `engine` and `spec` must live until it returns. 400 with `param` for a grammar that cannot be honoured; 429 when too
// many wait to be compiled.
http::asio::awaitable<ApiResult<std::shared_ptr<const Grammar>>> compile_grammar(Engine& engine,
                                                                                 const GrammarSpec& spec,
                                                                                 const std::string& param);

}  // namespace quern
