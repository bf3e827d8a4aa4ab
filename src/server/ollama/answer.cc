#include "server/ollama/answer.h"

#include <openssl/sha.h>

#include <algorithm>
#include <ctime>

#include "base/status.h"

namespace quern::ollama {
namespace {

int64_t nanoseconds(double seconds) {
  return static_cast<int64_t>(seconds * 1e9);
}

Json base(AnswerKind kind, const std::string& model, const Said& said, bool done) {
  Json object = {{"model", model}, {"created_at", rfc3339_now()}};
  if (kind == AnswerKind::kChat) {
    Json& message = object["message"] = {{"role", "assistant"}, {"content", said.text}};
    if (!said.thinking.empty()) message["thinking"] = said.thinking;
    if (!said.tool_calls.empty()) message["tool_calls"] = said.tool_calls;
  } else {
    object["response"] = said.text;
    if (!said.thinking.empty()) object["thinking"] = said.thinking;
  }
  object["done"] = done;
  return object;
}

// The call as Ollama writes it, when its arguments are whole.
void add_call(const AnswerReader& answer, size_t part_idx, Json& calls) {
  const auto& parts = answer.parts();
  const AnswerPart& call = parts[part_idx];
  auto arguments = parse_json(call.text, "arguments");
  if (!arguments || !arguments->is_object()) return;
  const auto before = std::ranges::count(parts.begin(), parts.begin() + static_cast<ptrdiff_t>(part_idx),
                                         AnswerPart::Kind::kCall, &AnswerPart::kind);
  calls.push_back({{"id", call.call_id},
                   {"function", {{"index", before}, {"name", call.name}, {"arguments", std::move(*arguments)}}}});
}

const std::string& name_of(const ServedModel& model, const std::string& adapter) {
  return adapter.empty() ? model.id : adapter;
}

// What tells this model from another one here: of its name and size, not of the file's bytes.
std::string digest_of(const std::string& name, int64_t bytes) {
  const std::string text = fmt::format("{}:{}", name, bytes);
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  std::string hex;
  for (const unsigned char byte : digest) hex += fmt::format("{:02x}", byte);
  return hex;
}

bool is_gguf(const ServedModel& model) {
  return model.format == "gguf";
}

Json details(const ServedModel& model, const std::string& adapter) {
  return {{"parent_model", adapter.empty() ? "" : model.id},
          {"format", model.format},
          {"family", model.family},
          {"families", Json::array({model.family})},
          {"parameter_size", ""},
          {"quantization_level", is_gguf(model) ? model.quantization : ""}};
}

}  // namespace

std::string error_body(const ApiError& error) {
  return dump_json({{"error", error.message}});
}

std::string error_line(const ApiError& error) {
  return error_body(error) + "\n";
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

Said all_said(const AnswerReader& answer) {
  Said said;
  for (size_t i = 0; i < answer.parts().size(); ++i) {
    const AnswerPart& part = answer.parts()[i];
    switch (part.kind) {
      case AnswerPart::Kind::kText: said.text += part.text; break;
      case AnswerPart::Kind::kReasoning: said.thinking += part.text; break;
      case AnswerPart::Kind::kCall: add_call(answer, i, said.tool_calls); break;
    }
  }
  return said;
}

std::vector<Said> new_said(const AnswerReader& answer, const std::vector<PartDelta>& deltas, bool is_end) {
  const auto& parts = answer.parts();
  std::vector<Said> result;
  const auto tell_call = [&](size_t part_idx) {
    if (parts[part_idx].kind != AnswerPart::Kind::kCall) return;
    Said said;
    add_call(answer, part_idx, said.tool_calls);
    if (!said.tool_calls.empty()) result.push_back(std::move(said));
  };
  for (const PartDelta& delta : deltas) {
    if (delta.begins && delta.part > 0) tell_call(delta.part - 1);
    if (parts[delta.part].kind == AnswerPart::Kind::kCall) continue;
    Said& said = result.emplace_back();
    (parts[delta.part].kind == AnswerPart::Kind::kText ? said.text : said.thinking) = delta.text;
  }
  if (is_end && !parts.empty()) tell_call(parts.size() - 1);
  return result;
}

Json part(AnswerKind kind, const std::string& model, const Said& said) {
  return base(kind, model, said, false);
}

Json end(AnswerKind kind, const std::string& model, const Said& said, const FinishEvent& finish,
         Clock::time_point begin) {
  Json object = base(kind, model, said, true);
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
  Json object = base(kind, model, {}, true);
  object["done_reason"] = "load";
  return object;
}

bool can_think(const ServedModel& model) {
  return !model.output.reasoning.close.empty() || model.output.tools == tools::ToolFormat::kHarmony;
}

Json model_entry(const ServedModel& model, const std::string& adapter) {
  const std::string& name = name_of(model, adapter);
  return {{"name", name},
          {"model", name},
          {"modified_at", rfc3339(model.created)},
          {"size", model.file_bytes},
          {"digest", digest_of(name, model.file_bytes)},
          {"details", details(model, adapter)}};
}

Json running_entry(const ServedModel& model, const std::string& adapter) {
  Json entry = model_entry(model, adapter);
  entry.erase("modified_at");
  entry["expires_at"] = "9999-12-31T23:59:59Z";  // as long as the server runs
  entry["size_vram"] = 0;
  entry["context_length"] = model.max_model_len();
  return entry;
}

Json fleet_entry(const ModelView& model) {
  const std::string& name = model.spec.uid;
  return {{"name", name},
          {"model", name},
          {"modified_at", rfc3339(model.created)},
          {"size", model.memory_estimate},
          {"digest", digest_of(name, model.memory_estimate)},
          {"details",
           {{"parent_model", ""},
            {"format", model.format},
            {"family", model.family},
            {"families", Json::array({model.family})},
            {"parameter_size", model.size.empty() ? "" : model.size + "B"},
            {"quantization_level", model.quantization}}}};
}

std::optional<Json> running_fleet_entry(const ModelView& model) {
  int64_t resident = 0;
  bool loaded = false;
  for (const ReplicaView& replica : model.replicas) {
    if (replica.state != ReplicaState::kReady && replica.state != ReplicaState::kDraining) continue;
    loaded = true;
    resident += replica.memory_bytes;
  }
  if (!loaded) return std::nullopt;
  Json entry = fleet_entry(model);
  entry.erase("modified_at");
  if (resident > 0) entry["size"] = resident;
  entry["expires_at"] = "9999-12-31T23:59:59Z";
  entry["size_vram"] = 0;
  entry["context_length"] = model.context;
  return entry;
}

Json fleet_details(const ModelView& model) {
  const std::string& type = model.spec.model_type;
  Json capabilities = Json::array({type == "embedding" || type == "rerank" ? type : "completion"});
  for (const std::string& ability : model.abilities) {
    if (ability == "tools" || ability == "vision") capabilities.push_back(ability);
    if (ability == "reasoning" || ability == "hybrid") capabilities.push_back("thinking");
  }
  Json info = {{"general.architecture", model.family}};
  if (model.context > 0) info[model.family + ".context_length"] = model.context;
  if (model.dimensions > 0) info[model.family + ".embedding_length"] = model.dimensions;
  const Json entry = fleet_entry(model);
  return {{"modelfile", fmt::format("FROM {}\n", model.spec.uid)},
          {"parameters", ""},
          {"template", ""},
          {"details", entry["details"]},
          {"model_info", std::move(info)},
          {"capabilities", std::move(capabilities)},
          {"modified_at", entry["modified_at"]}};
}

Json model_details(const ServedModel& model, const std::string& adapter) {
  Json info = {{"general.architecture", model.family}};
  info[model.family + ".context_length"] = model.max_model_len();
  if (model.encoder) info[model.family + ".embedding_length"] = model.encoder->width();
  Json capabilities = Json::array();
  capabilities.push_back(model.engine ? "completion" : model.task == ModelTask::kEmbed ? "embedding" : "rerank");
  if (model.engine && model.text->has_chat_template() &&
      model.text->chat_template_text()->find("tools") != std::string::npos) {
    capabilities.push_back("tools");
  }
  if (model.engine && can_think(model)) capabilities.push_back("thinking");
  return {{"modelfile", fmt::format("FROM {}\n", model.id)},
          {"parameters", ""},
          {"template", model.text->chat_template_text().value_or("")},
          {"details", details(model, adapter)},
          {"model_info", std::move(info)},
          {"capabilities", std::move(capabilities)},
          {"modified_at", rfc3339(model.created)}};
}

}  // namespace quern::ollama
