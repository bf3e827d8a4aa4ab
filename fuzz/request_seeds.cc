#include "request_seeds.h"

#include <string>

#include "base/check.h"
#include "base/json.h"
#include "formats/safetensors/safetensors_writer.h"
#include "scratch.h"

namespace quern::fuzz {
namespace {

// A body behind the byte that chooses its route.
Seed routed(std::string name, char route, std::string body) {
  return {std::move(name), route + std::move(body)};
}

std::vector<Seed> openai_seeds() {
  std::vector<Seed> seeds;
  for (const Seed& seed : request_seeds()) {
    std::string body = seed.bytes;
    body.replace(body.find("\"m\""), 3, "\"llama\"");
    seeds.push_back(routed(seed.name, seed.name == "chat" ? '\0' : '\1', body));
  }
  seeds.push_back(routed("chat_tools", '\0',
                         R"({"messages":[{"role":"user","content":"x"}],"max_tokens":9,"tools":[{"type":"function",
  "function":{"name":"f","parameters":{"type":"object","properties":{"a":{"enum":[1,2]}},"required":["a"]}}}],
  "tool_choice":"required","parallel_tool_calls":false,"stream":true})"));
  seeds.push_back(routed("chat_format", '\0',
                         R"({"messages":[{"role":"user","content":"x"}],"max_tokens":9,"logprobs":true,"top_logprobs":2,
  "response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"array","items":{"const":1}}}}})"));
  seeds.push_back(routed("completion_beams", '\1',
                         R"({"prompt":[5,6],"max_tokens":3,"n":2,"use_beam_search":true,"length_penalty":1.5})"));
  seeds.push_back(
      routed("completion_guided", '\1',
             R"({"prompt":"a","max_tokens":5,"prompt_logprobs":1,"structured_outputs":{"regex":"[ab]{3}"}})"));
  seeds.push_back(routed("tokenize", '\2', R"({"model":"llama","prompt":"a b","add_special_tokens":false})"));
  seeds.push_back(
      routed("tokenize_chat", '\2',
             R"({"model":"llama","messages":[{"role":"user","content":"x"}],"add_generation_prompt":true})"));
  seeds.push_back(routed("detokenize", '\3', R"({"model":"llama","tokens":[5,6,7]})"));
  return seeds;
}

std::vector<Seed> encoder_seeds() {
  return {
      routed(
          "embeddings", '\0',
          R"({"model":"bert","input":["a b","c"],"encoding_format":"base64","dimensions":4,"truncate_prompt_tokens":8})"),
      routed("embeddings_ids", '\0', R"({"model":"bert","input":[[5,6],[7]],"add_special_tokens":true})"),
      routed("rerank", '\1',
             R"({"model":"bert_rerank","query":"q","documents":["a",{"text":"b"}],"top_n":1,"return_documents":true})"),
      routed("rerank_cut", '\2', R"({"model":"bert_rerank","query":"q","documents":["a"],"max_tokens_per_doc":3})"),
      routed("score", '\3', R"({"model":"bert","text_1":"a","text_2":["b","c"]})"),
      routed("classify", '\4', R"({"model":"bert_classify","input":["a","b"]})"),
  };
}

std::vector<Seed> responses_seeds() {
  return {
      {"text", R"({"model":"llama","input":"x","max_output_tokens":4,"temperature":0.5,"top_p":0.9,"store":false,
  "instructions":"be brief","reasoning":{"effort":"low"},"metadata":{"a":"b"},"stream":true})"},
      {"items", R"({"model":"llama","input":[{"role":"user","content":[{"type":"input_text","text":"x"}]},
  {"type":"function_call","call_id":"c","name":"f","arguments":"{}"},
  {"type":"function_call_output","call_id":"c","output":"1"},{"type":"reasoning","summary":[]}],
  "tools":[{"type":"function","name":"f","parameters":{"type":"object"},"strict":false}],"tool_choice":"auto",
  "parallel_tool_calls":true,"max_output_tokens":4,"text":{"format":{"type":"json_schema","name":"n","schema":{"const":1}}}})"},
  };
}

std::vector<Seed> anthropic_seeds() {
  const std::string messages = R"({"model":"llama","max_tokens":4,"system":[{"type":"text","text":"s"}],"messages":[
  {"role":"user","content":[{"type":"text","text":"a"}]},{"role":"assistant","content":[{"type":"thinking",
  "thinking":"t","signature":"s"},{"type":"tool_use","id":"c","name":"f","input":{"a":1}}]},{"role":"user","content":[
  {"type":"tool_result","tool_use_id":"c","content":"r","is_error":true}]}],"tools":[{"name":"f","input_schema":
  {"type":"object"}}],"tool_choice":{"type":"auto","disable_parallel_tool_use":true},"stop_sequences":["x"],
  "temperature":0.5,"top_p":0.9,"top_k":3,"metadata":{"user_id":"u"},"stream":true})";
  return {
      routed("messages", '\0', messages),
      routed("count_tokens", '\1', messages),
      routed("thinking", '\0',
             R"({"model":"llama","max_tokens":9,"messages":[{"role":"user","content":"a"}],
  "thinking":{"type":"enabled","budget_tokens":4},"output_config":{"format":{"type":"json_schema","schema":{"const":1}}}})"),
  };
}

std::vector<Seed> ollama_seeds() {
  return {
      routed("chat", '\0',
             R"({"model":"llama:latest","messages":[{"role":"system","content":"s"},{"role":"user","content":"a"},
  {"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":{"a":1}}}]},{"role":"tool",
  "tool_name":"f","content":"r"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],
  "options":{"temperature":0.5,"num_predict":4,"num_ctx":500,"seed":1,"stop":["x"]},"keep_alive":"5m","think":"low"})"),
      routed(
          "generate", '\1',
          R"({"model":"llama","prompt":"a","system":"s","format":{"const":1},"options":{"num_predict":4},"stream":false})"),
      routed("raw", '\1',
             R"({"model":"llama","prompt":"a","raw":true,"options":{"num_predict":4,"top_k":3,"min_p":0.1}})"),
      routed("embed", '\2', R"({"model":"bert","input":["a","b"],"truncate":true,"dimensions":4})"),
      routed("embeddings", '\3', R"({"model":"bert","prompt":"a"})"),
      routed("show", '\4', R"({"model":"llama"})"),
  };
}

Json test_json(const char* name) {
  const auto json = parse_json(read_file(std::filesystem::path(QUERN_TEST_DATA) / "grammar" / name), name);
  QUERN_CHECK(json.has_value());
  return *json;
}

// A pair of matrices for one projection of the golden llama.
struct AdapterFixture {
  std::vector<float> values = std::vector<float>(64 * 2, 0.5f);
  std::vector<TensorView> views(const char* down, const char* up) const {
    const auto bytes = std::as_bytes(std::span(values));
    return {{.name = down, .dtype = DType::kF32, .shape = {2, 64}, .bytes = bytes},
            {.name = up, .dtype = DType::kF32, .shape = {64, 2}, .bytes = bytes}};
  }
};

std::string with_size(const std::string& first, const std::string& second) {
  std::string size;
  for (int shift = 0; shift < 32; shift += 8) size += static_cast<char>(first.size() >> shift & 0xff);
  return size + first + second;
}

}  // namespace

const std::vector<Seed>& request_seeds() {
  static const std::vector<Seed> seeds = {
      {"chat",
       R"({"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"a"}]},
       {"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f",
       "arguments":"{\"a\":1}"}}]},{"role":"tool","tool_call_id":"c","content":"r"}],"tools":[{"type":"function",
       "function":{"name":"f","parameters":{"type":"object"}}}],"tool_choice":"auto","parallel_tool_calls":true,
       "max_completion_tokens":5,"temperature":0.5,"top_p":0.9,"top_k":40,"min_p":0.1,"seed":-7,"n":2,
       "stop":["a","b"],"stop_token_ids":[1,2],"logit_bias":{"12":-100,"7":3.5},"stream":true,
       "stream_options":{"include_usage":true},"presence_penalty":1,"frequency_penalty":-1,"repetition_penalty":1.1,
       "priority":3,"ignore_eos":true,"response_format":{"type":"text"},"modalities":["text"],"user":"u",
       "chat_template_kwargs":{"enable_thinking":false},"continue_final_message":false,"add_generation_prompt":true})"},
      {"completion",
       R"({"model":"m","prompt":"Once","max_tokens":5,"echo":true,"best_of":1,"logprobs":null,"suffix":null})"},
      {"texts", R"({"model":"m","prompt":["a","b"],"stop":"x"})"},
      {"ids", R"({"model":"m","prompt":[[1,2,3],[4]],"typical_p":0.5})"},
      {"id_list", R"({"model":"m","prompt":[1,2,3]})"},
  };
  return seeds;
}

std::vector<Seed> dialect_seeds(std::string_view target) {
  if (target == "http_openai") return openai_seeds();
  if (target == "http_encoders") return encoder_seeds();
  if (target == "http_responses") return responses_seeds();
  if (target == "http_anthropic") return anthropic_seeds();
  return ollama_seeds();
}

std::vector<Seed> schema_seeds() {
  std::vector<Seed> seeds;
  const Json schemas = test_json("schemas.json");
  for (const auto& item : schemas.items()) {
    seeds.push_back({"schema" + std::to_string(seeds.size()), dump_json(item.value())});
  }
  return seeds;
}

std::vector<Seed> grammar_seeds() {
  std::vector<Seed> seeds;
  const auto add = [&](char kind, std::string text) {
    seeds.push_back(routed("grammar" + std::to_string(seeds.size()), kind, std::move(text)));
  };
  const Json grammars = test_json("grammars.json"), regexes = test_json("regexes.json");
  for (const auto& item : grammars.items()) add('\0', item.value()["grammar"].get<std::string>());
  for (const Json& regex : regexes) add('\1', regex.get<std::string>());
  add('\2', R"(["ebb","flow","a b"])");
  return seeds;
}

std::vector<Seed> adapter_seeds() {
  const AdapterFixture fixture;
  const auto peft = scratch_file("seed.safetensors", "");
  const std::string stem = "base_model.model.model.layers.0.self_attn.q_proj.lora_";
  QUERN_CHECK(
      write_safetensors(peft, fixture.views((stem + "A.weight").c_str(), (stem + "B.weight").c_str())).has_value());
  const std::string config = R"({"peft_type":"LORA","r":2,"lora_alpha":4,"target_modules":["q_proj"],"use_rslora":false,
  "rank_pattern":{},"alpha_pattern":{},"bias":"none","fan_in_fan_out":false})";
  return {{"peft", with_size(config, read_file(peft))}};
}

}  // namespace quern::fuzz
