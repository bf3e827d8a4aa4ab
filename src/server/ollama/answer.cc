#include "server/ollama/answer.h"

#include <openssl/sha.h>

#include <ctime>

#include "base/status.h"

namespace quern::ollama {
namespace {

int64_t nanoseconds(double seconds) {
  return static_cast<int64_t>(seconds * 1e9);
}

Json base(AnswerKind kind, const std::string& model, const std::string& text, bool done) {
  Json object = {{"model", model}, {"created_at", rfc3339_now()}};
  if (kind == AnswerKind::kChat) {
    object["message"] = {{"role", "assistant"}, {"content", text}};
  } else {
    object["response"] = text;
  }
  object["done"] = done;
  return object;
}

// What tells this model from another one here: of its name and size, not of the file's bytes.
std::string digest_of(const ServedModel& model) {
  const std::string text = fmt::format("{}:{}", model.id, model.file_bytes);
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  std::string hex;
  for (const unsigned char byte : digest) hex += fmt::format("{:02x}", byte);
  return hex;
}

bool is_gguf(const ServedModel& model) {
  return model.format == "gguf";
}

Json details(const ServedModel& model) {
  return {{"parent_model", ""},     {"format", model.format},
          {"family", model.family}, {"families", Json::array({model.family})},
          {"parameter_size", ""},   {"quantization_level", is_gguf(model) ? model.quantization : ""}};
}

}  // namespace

std::string error_body(const ApiError& error) {
  return dump_json({{"error", error.message}});
}

std::string rfc3339(int64_t unix_seconds) {
  const std::time_t seconds = unix_seconds;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                     parts.tm_hour, parts.tm_min, parts.tm_sec);
}

std::string rfc3339_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const int64_t us = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  std::string text = rfc3339(us / 1'000'000);
  text.pop_back();
  return fmt::format("{}.{:06}Z", text, us % 1'000'000);
}

Json part(AnswerKind kind, const std::string& model, const std::string& text) {
  return base(kind, model, text, false);
}

Json end(AnswerKind kind, const std::string& model, const std::string& text, const FinishEvent& finish,
         Clock::time_point begin) {
  Json object = base(kind, model, text, true);
  object["done_reason"] = finish_reason_name(finish.reason);
  object["total_duration"] = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin).count();
  object["load_duration"] = 0;
  object["prompt_eval_count"] = finish.prompt_tokens;
  object["prompt_eval_duration"] = nanoseconds(finish.prefill_seconds);
  object["eval_count"] = finish.output_tokens;
  object["eval_duration"] = nanoseconds(finish.decode_seconds);
  return object;
}

Json loaded(AnswerKind kind, const std::string& model) {
  Json object = base(kind, model, "", true);
  object["done_reason"] = "load";
  return object;
}

Json model_entry(const ServedModel& model) {
  return {{"name", model.id},         {"model", model.id},          {"modified_at", rfc3339(model.created)},
          {"size", model.file_bytes}, {"digest", digest_of(model)}, {"details", details(model)}};
}

Json running_entry(const ServedModel& model) {
  Json entry = model_entry(model);
  entry.erase("modified_at");
  entry["expires_at"] = "9999-12-31T23:59:59Z";  // as long as the server runs
  entry["size_vram"] = 0;
  entry["context_length"] = model.max_model_len();
  return entry;
}

Json model_details(const ServedModel& model) {
  Json info = {{"general.architecture", model.family}};
  info[model.family + ".context_length"] = model.max_model_len();
  if (model.encoder) info[model.family + ".embedding_length"] = model.encoder->width();
  Json capabilities = Json::array();
  capabilities.push_back(model.engine ? "completion" : model.task == ModelTask::kEmbed ? "embedding" : "rerank");
  if (model.engine && model.text->has_chat_template() &&
      model.text->chat_template_text()->find("tools") != std::string::npos) {
    capabilities.push_back("tools");
  }
  return {{"modelfile", fmt::format("FROM {}\n", model.id)},
          {"parameters", ""},
          {"template", model.text->chat_template_text().value_or("")},
          {"details", details(model)},
          {"model_info", std::move(info)},
          {"capabilities", std::move(capabilities)},
          {"modified_at", rfc3339(model.created)}};
}

}  // namespace quern::ollama
