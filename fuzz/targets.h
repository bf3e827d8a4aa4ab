// Everything that reads bytes from outside, each as one function that takes any bytes. Two drivers call them: libFuzzer
// (entry.cc, preset `fuzz`) and seeded mutations of the golden files (mutation_test.cc, part of the test suite).
// Whatever a target is given it returns; a crash, an exception, a failed QUERN_CHECK, a hang or memory beyond the limit
// is a finding.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "quern/status.h"

namespace quern::fuzz {

struct Target {
  std::string_view name;
  void (*run)(std::string_view input) = nullptr;
};
std::span<const Target> targets();
const Target* find_target(std::string_view name);  // nullptr when there is none

void run_gguf(std::string_view file);         // parser, configuration, tokenizer, template, tensors, a forward pass
void run_gguf_split(std::string_view input);  // u32 size of part 1, part 1, part 2
void run_safetensors(std::string_view file);  // parser, every tensor as float32
void run_index(std::string_view json);        // model.safetensors.index.json
void run_json(std::string_view text);
void run_config(std::string_view json);           // config.json of a decoder or an encoder
void run_folder_config(std::string_view input);   // u8 index of a golden folder, config.json for its weights
void run_folder_weights(std::string_view input);  // u8 index of a golden folder, model.safetensors for its config
void run_tokenizer(std::string_view json);        // tokenizer.json
void run_template(std::string_view text);         // chat template
void run_request(std::string_view body);          // bodies of /v1/chat/completions and /v1/completions
void run_http_openai(std::string_view input);     // u8 chooses a route of text generation, then its body: the whole way
void run_http_encoders(std::string_view input);   // the same for embeddings, rerank, score and classify
void run_http_responses(std::string_view body);   // /v1/responses
void run_http_anthropic(std::string_view input);  // u8 chooses a route, its body
void run_http_ollama(std::string_view input);     // the same
int last_http_status();                           // of the latest run_http_…: seeds have to be good requests
void run_schema(std::string_view schema);         // JSON schema to grammar to a text
void run_grammar(std::string_view input);         // u8 chooses GBNF or Lark, regex, choices; its text
void run_adapter(std::string_view input);  // u32 size of adapter_config.json, itself, the weights (or a GGUF file)
void run_names(std::string_view text);     // what a user writes for MODEL; catalogue documents, registrations

void run_server_config(std::string_view text);  // quern.yaml
void run_jobs(std::string_view text);           // a window, a job, what XXL-JOB's admin says
void run_hardware(std::string_view input);      // u8 chooses a vendor's tool, its output

// What holds for every refusal: one line, neither empty nor endless.
void check_refusal(const Error& error);

}  // namespace quern::fuzz
