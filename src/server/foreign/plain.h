// Routes whose answers differ little between engines: another path, another name of a field.
#pragma once

#include "server/foreign/translation.h"

namespace quern::foreign {

// vLLM has /tokenize and /detokenize without /v1; SGLang calls the text `text`, vLLM and we `prompt`.
ApiResult<std::unique_ptr<Translation>> tokenize_as_tokenize(const Asked& asked);
ApiResult<std::unique_ptr<Translation>> detokenize_as_detokenize(const Asked& asked);
ApiResult<std::unique_ptr<Translation>> detokenize_of_sglang(const Asked& asked);

// vLLM refuses a limit of the answer that is over the model's context; here as with us it is a limit all the same.
ApiResult<std::unique_ptr<Translation>> limits_of_vllm(const Asked& asked);
// Does a body name such a limit? Cheap, and may be wrong where the name stands in a text.
bool names_large_limit(std::string_view body, int64_t context);
// The limits of `body` that are over `context` (0: not known) become it.
void bound_limits(Json& body, int64_t context);

// Documents as text, best first, `document` where it was asked for. Scores are as the engine gives them.
ApiResult<std::unique_ptr<Translation>> rerank_as_rerank(const Asked& asked);

// Another path or other fields; the answer is the client's as it is.
class Moved final : public Translation {
 public:
  Moved(std::string to_path, Json to_body) : Translation(std::move(to_path), std::move(to_body)) {
    keeps_answer = true;
  }
  ApiResult<Json> whole(const Json& answer) override { return answer; }
};

// `body` with the worker's name of the model.
Json with_model(Json body, const std::string& name);
// A member of what may be no object; null: it has none.
Json member(const Json& value, const char* name);

}  // namespace quern::foreign
