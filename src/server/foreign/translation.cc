#include "server/foreign/translation.h"

#include <algorithm>
#include <array>

#include "base/status.h"
#include "server/anthropic/as_chat.h"
#include "server/foreign/chat_answer.h"
#include "server/foreign/llama_server.h"
#include "server/foreign/plain.h"
#include "server/ollama/as_chat.h"

namespace quern::foreign {
namespace {

constexpr size_t kLineBytesMax = 8u << 20;

using Make = ApiResult<std::unique_ptr<Translation>> (*)(const Asked&);

struct Entry {
  std::string_view path;
  std::string_view engine;  // empty: any
  Make make;
};

constexpr auto kEntries = std::to_array<Entry>({
    {"/v1/messages", "", anthropic::messages_as_chat},
    {"/api/chat", "", ollama::chat_as_chat},
    {"/api/generate", "", ollama::generate_as_chat},
    {"/api/embed", "", ollama::embed_as_embeddings},
    {"/api/embeddings", "", ollama::embeddings_as_embeddings},
    {"/tokenize", "llama.cpp", tokenize_of_llama},
    {"/v1/tokenize", "llama.cpp", tokenize_of_llama},
    {"/v1/tokenize", "vllm", tokenize_as_tokenize},
    {"/detokenize", "llama.cpp", detokenize_of_llama},
    {"/v1/detokenize", "llama.cpp", detokenize_of_llama},
    {"/detokenize", "sglang", detokenize_of_sglang},
    {"/v1/detokenize", "sglang", detokenize_of_sglang},
    {"/v1/detokenize", "vllm", detokenize_as_detokenize},
    {"/rerank", "", rerank_as_rerank},
    {"/v1/rerank", "", rerank_as_rerank},
    {"/v2/rerank", "", rerank_as_rerank},
    {"/v1/chat/completions", "llama.cpp", fields_of_llama},
    {"/v1/completions", "llama.cpp", fields_of_llama},
    {"/v1/chat/completions", "vllm", limits_of_vllm},
    {"/v1/completions", "vllm", limits_of_vllm},
});

const Entry* find_entry(std::string_view engine, std::string_view path) {
  const auto it = std::ranges::find_if(kEntries, [&](const Entry& entry) {
    return entry.path == path && (entry.engine.empty() || entry.engine == engine);
  });
  return it == kEntries.end() ? nullptr : &*it;
}

}  // namespace

bool is_foreign(std::string_view engine) {
  constexpr std::array engines = {"vllm", "sglang", "llama.cpp", "openai"};
  return std::ranges::find(engines, engine) != engines.end();
}

bool may_need_translation(std::string_view engine, std::string_view path, std::string_view body, int64_t context) {
  if (!is_foreign(engine)) return false;
  const Entry* entry = find_entry(engine, path);
  if (entry == nullptr) return false;
  if (entry->make == fields_of_llama) return names_strange_field(body);
  if (entry->make == limits_of_vllm) return names_large_limit(body, context);
  return true;
}

ApiResult<std::unique_ptr<Translation>> translate(const Asked& asked) {
  const Entry* entry = is_foreign(asked.engine) ? find_entry(asked.engine, asked.path) : nullptr;
  if (entry == nullptr) return std::unique_ptr<Translation>();
  return entry->make(asked);
}

std::string StreamTranslator::fail(const ApiError& error) {
  has_failed_ = true;
  held_.clear();
  return error_event_(error);
}

std::string StreamTranslator::line(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  const bool is_error = line.starts_with("error:");  // older llama-server's
  if (!is_error && !line.starts_with("data:")) return "";
  line.remove_prefix(line.find(':') + 1);
  while (line.starts_with(' ')) line.remove_prefix(1);
  if (line == "[DONE]" || line.empty()) return "";
  auto object = parse_json(line, "an event");
  if (!object) return fail({.status = 502, .message = object.error().message, .type = "worker_error"});
  if (is_error && !object->contains("error")) object = Json{{"error", std::move(*object)}};
  auto said = translation_.event(*object);
  return said ? std::move(*said) : fail(said.error());
}

std::string StreamTranslator::push(std::string_view bytes) {
  if (has_failed_) return "";
  std::string out;
  if (!std::exchange(has_begun_, true)) out = translation_.begin();
  held_ += bytes;
  size_t begin = 0;
  for (size_t end; !has_failed_ && (end = held_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    out += line(std::string_view(held_).substr(begin, end - begin));
  }
  if (has_failed_) return out;
  held_.erase(0, begin);
  if (held_.size() > kLineBytesMax) {
    out += fail({.status = 502, .message = "a line of the worker's answer is too long", .type = "worker_error"});
  }
  return out;
}

std::string StreamTranslator::finish() {
  std::string out = push("\n");
  if (has_failed_) return out;
  auto end = translation_.end();
  return out + (end ? std::move(*end) : fail(end.error()));
}

}  // namespace quern::foreign
