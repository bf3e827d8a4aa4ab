// Ollama's requests of text generation: wire fields to validated values.
#pragma once

#include <optional>

#include "base/json.h"
#include "server/api_error.h"
#include "server/fields.h"
#include "server/generation.h"
#include "server/tool_list.h"

namespace quern::ollama {

struct GenerationRequest {
  Generation generation;  // planned
  std::optional<GrammarSpec> format;
  Json template_kwargs = Json::object();
  bool stream = true;
  bool load_only = false;  // no prompt: the client only wants the model to be there
};

// `model` was found already. Encodes the prompt. Errors name the field.
ApiResult<GenerationRequest> parse_chat(const Json& body, const ModelTable::Choice& model);
ApiResult<GenerationRequest> parse_generate(const Json& body, const ModelTable::Choice& model);

// Names that Ollama's clients use: with ":latest" or without; of a model or of an adapter. 404 in Ollama's words.
ApiResult<ModelTable::Choice> find_model(const ModelTable& models, const Json& body);

// The wire's fields, whatever runs the model: faults are kept by `fields`.
struct Options {
  int64_t num_predict = -1;  // -1 and -2: to the end of the context
  int64_t num_ctx = 0;       // 0: the model's
};
// `context`: tokens of the model; 0: not known. Into sampling and stops of `request`; faults go to `outer`.
Options read_options(const Json& object, int64_t context, Request& request, Fields& outer);
std::optional<GrammarSpec> read_format(Fields& fields);
void refuse_unsupported(Fields& fields);  // what nobody does yet
// enable_thinking or reasoning_effort into `kwargs`; false: the client wants no thoughts, or there is a fault.
bool read_think(Fields& fields, Json& kwargs);
ToolList read_tools(Fields& fields);
ApiResult<Json> read_turns(const Json& messages);  // as templates want them

// keep_alive and the like: checked, without effect, for a model stays loaded as long as the server runs.
void accept_residency(Fields& fields);

}  // namespace quern::ollama
