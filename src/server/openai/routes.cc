#include "server/openai/routes.h"

#include "server/openai/adapters.h"
#include "server/openai/embeddings.h"
#include "server/openai/generate.h"

namespace quern::openai {

Routes routes(const AdapterRules& adapters, door::Door* door) {
  return {
      traced({"POST", "/v1/chat/completions", chat_completions}),
      traced({"POST", "/v1/completions", completions}),
      needs(people::Scope::kModelsWrite, {"POST", "/v1/load_lora_adapter", load_adapter(adapters, door)}),
      needs(people::Scope::kModelsWrite, {"POST", "/v1/unload_lora_adapter", unload_adapter(adapters, door)}),
      traced({"POST", "/v1/embeddings", embeddings}),
      traced({"POST", "/score", score}),
      traced({"POST", "/v1/score", score}),
      traced({"POST", "/classify", classify}),
      traced({"POST", "/v1/classify", classify}),
      carried({"POST", "/tokenize", tokenize}),
      carried({"POST", "/v1/tokenize", tokenize}),
      carried({"POST", "/detokenize", detokenize}),
      carried({"POST", "/v1/detokenize", detokenize}),
  };
}

}  // namespace quern::openai
