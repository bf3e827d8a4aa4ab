#include "targets.h"

#include "base/check.h"

namespace quern::fuzz {
namespace {

constexpr Target kTargets[] = {
    {"gguf", run_gguf},
    {"gguf_split", run_gguf_split},
    {"safetensors", run_safetensors},
    {"index", run_index},
    {"json", run_json},
    {"config", run_config},
    {"folder_config", run_folder_config},
    {"folder_weights", run_folder_weights},
    {"tokenizer", run_tokenizer},
    {"template", run_template},
    {"request", run_request},
    {"names", run_names},
    {"http_openai", run_http_openai},
    {"http_encoders", run_http_encoders},
    {"http_responses", run_http_responses},
    {"http_anthropic", run_http_anthropic},
    {"http_ollama", run_http_ollama},
    {"schema", run_schema},
    {"grammar", run_grammar},
    {"adapter", run_adapter},
    {"server_config", run_server_config},
    {"jobs", run_jobs},
    {"hardware", run_hardware},
};

}  // namespace

std::span<const Target> targets() {
  return kTargets;
}

const Target* find_target(std::string_view name) {
  for (const Target& target : kTargets) {
    if (target.name == name) return &target;
  }
  return nullptr;
}

void check_refusal(const Error& error) {
  QUERN_CHECK(!error.message.empty());
  QUERN_CHECK(error.message.find('\n') == std::string::npos);
  QUERN_CHECK(error.message.size() < 4096);
}

}  // namespace quern::fuzz
