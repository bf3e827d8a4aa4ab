#include "server/openai/request.h"

#include <algorithm>
#include <limits>

#include "base/status.h"
#include "server/openai/sampling_fields.h"

namespace quern::openai {
namespace {

constexpr int64_t kChoicesMax = 128;
constexpr size_t kPromptsMax = 1024;

// Fields this server knows and cannot honour yet: refused by name, unless the value asks for nothing.
void refuse_unsupported(Fields& fields) {
  const auto refuse_if = [&](std::string_view name, auto asks_for_something) {
    const Json* value = fields.any(name);
    if (value != nullptr && asks_for_something(*value)) {
      fields.fault(name, fmt::format("{}: this value is not supported", name));
    }
  };
  const auto truthy = [](const Json& value) { return !(value == false || value == 0 || value == Json::array()); };
  for (const std::string_view name : {"suffix", "functions", "function_call", "audio"}) {
    refuse_if(name, truthy);
  }
  refuse_if("modalities", [](const Json& value) { return value != Json::array({"text"}); });
  fields.accept({"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "verbosity"});
  fields.string("request_id");  // by which POST …/requests/{request_id}/abort finds it
}

// tokens_min 0: an answer of no tokens is allowed, for whoever wants the prompt alone.
GenerationFields read_generation(Fields& fields, const SamplingOptions& defaults, int64_t tokens_min = 1) {
  GenerationFields result;
  result.request.sampling = defaults;
  if (auto model = fields.string("model")) result.model = std::move(*model);
  read_sampling(fields, result.request.sampling);
  read_stop(fields, result.request);
  read_speculation(fields, result);
  read_adapter(fields, result.request);
  const auto max_tokens = fields.integer("max_tokens", tokens_min, std::numeric_limits<int64_t>::max());
  const auto max_completion_tokens = fields.integer("max_completion_tokens", 1, std::numeric_limits<int64_t>::max());
  if (const auto limit = max_completion_tokens ? max_completion_tokens : max_tokens) {
    result.request.max_tokens = static_cast<int32_t>(std::clamp<int64_t>(*limit, 1, kTokensMax));
    result.prompt_only = *limit == 0;
  }
  result.request.n = static_cast<int32_t>(fields.integer("n", 1, kChoicesMax).value_or(1));
  result.request.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  result.request.skip_special_tokens = fields.boolean("skip_special_tokens").value_or(true);
  result.request.priority = static_cast<int32_t>(
      fields.integer("priority", std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()).value_or(0));
  result.grammar = read_grammar(fields);
  if (auto salt = fields.string("cache_salt")) {
    if (salt->empty()) fields.fault("cache_salt", "cache_salt: must not be empty");
    result.request.cache_salt = std::move(*salt);
  }
  result.stream = fields.boolean("stream").value_or(false);
  read_best_of(fields, result);
  read_beam_search(fields, result);
  if (const auto count = fields.integer("prompt_logprobs", 0, kLogprobsMax)) {
    result.request.prompt_logprobs = static_cast<int32_t>(*count);
    if (result.stream) fields.fault("prompt_logprobs", "prompt_logprobs: not with stream");
  }
  if (const Json* options = fields.object("stream_options")) {
    Fields inner(*options);
    result.include_usage = inner.boolean("include_usage").value_or(false);
    inner.accept({"include_obfuscation"});
    inner.refuse_unknown();
    if (!inner.ok()) fields.fault("stream_options", inner.take_error().message);
    if (!result.stream) fields.fault("stream_options", "stream_options: only with stream: true");
  }
  return result;
}

// Content as templates take it: text, null, or parts of type text joined by newlines.
ApiResult<Json> flat_content(const Json& content, size_t message_idx) {
  const std::string param = fmt::format("messages[{}].content", message_idx);
  if (content.is_null() || content.is_string()) return content;
  if (!content.is_array()) return bad_field(param, param + ": must be a string or a list of parts");
  std::string text;
  bool first = true;
  for (const Json& part : content) {
    if (!part.is_object() || !part.contains("type") || !part["type"].is_string()) {
      return bad_field(param, param + ": each part must be an object with a type");
    }
    const auto type = part["type"].get<std::string>();
    if (type != "text")
      return bad_field(param, fmt::format("{}: parts of type {} are not supported by this model", param, type));
    if (!part.contains("text") || !part["text"].is_string())
      return bad_field(param, param + ": a text part must have a text");
    if (!first) text += '\n';
    first = false;
    text += part["text"].get<std::string>();
  }
  return Json(std::move(text));
}

ApiResult<Json> checked_messages(const Json& messages) {
  if (messages.empty()) return bad_field("messages", "messages: must not be empty");
  Json result = Json::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string param = fmt::format("messages[{}]", i);
    Json message = messages[i];
    if (!message.is_object()) return bad_field(param, param + ": must be an object");
    if (!message.contains("role") || !message["role"].is_string())
      return bad_field(param + ".role", param + ".role: must be a string");
    if (message["role"] == "developer") message["role"] = "system";
    const auto role = message["role"].get<std::string>();
    if (role != "system" && role != "user" && role != "assistant" && role != "tool" && role != "function") {
      return bad_field(param + ".role", fmt::format("{}.role: {} is not a role", param, role));
    }
    auto content = flat_content(message.contains("content") ? message["content"] : Json(nullptr), i);
    if (!content) return std::unexpected(content.error());
    if (content->is_null() && role != "assistant") return bad_field(param + ".content", param + ".content: is missing");
    message["content"] = std::move(*content);
    // Clients replay what they received; a null there says the same as nothing.
    for (const char* name : {"tool_calls", "function_call", "refusal", "audio", "name"}) {
      if (message.contains(name) && message[name].is_null()) message.erase(name);
    }
    if (role == "assistant") {
      if (const auto normal = normalize_assistant(message, param); !normal) return std::unexpected(normal.error());
    }
    result.push_back(std::move(message));
  }
  return result;
}

// vLLM's and Qwen's switches of the reasoning; what the template takes goes to it by the names it knows.
void read_reasoning(Fields& fields, ChatRequest& chat) {
  chat.include_reasoning = fields.boolean("include_reasoning").value_or(true);
  if (const auto budget = fields.integer("thinking_token_budget", 0, kTokensMax)) {
    chat.thinking_budget = static_cast<int32_t>(*budget);
  }
  if (const auto enabled = fields.boolean("enable_thinking")) chat.template_kwargs["enable_thinking"] = *enabled;
  if (const auto effort = fields.string("reasoning_effort")) {
    if (*effort == "none") {
      chat.template_kwargs["enable_thinking"] = false;
    } else if (*effort == "minimal" || *effort == "low" || *effort == "medium" || *effort == "high" ||
               *effort == "xhigh") {
      chat.template_kwargs["reasoning_effort"] = *effort;
    } else {
      fields.fault("reasoning_effort", "reasoning_effort: must be none, minimal, low, medium, high or xhigh");
    }
  }
}

}  // namespace

ApiResult<ChatRequest> parse_chat_request(const Json& body, const SamplingOptions& defaults) {
  Fields fields(body);
  ChatRequest chat;
  const Json* messages = fields.array("messages");
  if (messages == nullptr) fields.fault("messages", "messages: is missing");
  chat.generation = read_generation(fields, defaults);
  chat.tools = read_tools(fields);
  if (const Json* kwargs = fields.object("chat_template_kwargs")) chat.template_kwargs = *kwargs;
  read_reasoning(fields, chat);
  chat.continue_final_message = fields.boolean("continue_final_message").value_or(false);
  chat.add_generation_prompt = fields.boolean("add_generation_prompt").value_or(!chat.continue_final_message);
  if (chat.continue_final_message && chat.add_generation_prompt) {
    fields.fault("continue_final_message", "continue_final_message: not together with add_generation_prompt");
  }
  read_chat_logprobs(fields, chat.generation);
  refuse_unsupported(fields);
  fields.refuse_unknown();
  if (!fields.ok()) return std::unexpected(fields.take_error());
  auto checked = checked_messages(*messages);
  if (!checked) return std::unexpected(checked.error());
  chat.messages = std::move(*checked);
  return chat;
}

ApiResult<CompletionRequest> parse_completion_request(const Json& body, const SamplingOptions& defaults) {
  Fields fields(body);
  CompletionRequest completion;
  completion.echo = fields.boolean("echo").value_or(false);
  completion.generation = read_generation(fields, defaults, completion.echo ? 0 : 1);
  read_completion_logprobs(fields, completion);
  const Json* prompt = fields.any("prompt");
  const auto add_ids = [&](const Json& list) {
    const Json wrapped = {{"prompt", list}};
    Fields inner(wrapped);
    const auto ids = inner.integers("prompt", 0, kTokensMax, std::numeric_limits<size_t>::max());
    if (!ids) {
      inner.fault("prompt", "prompt: null is no prompt");
      return fields.fault("prompt", inner.take_error().message);
    }
    completion.prompts.emplace_back(std::vector<int32_t>(ids->begin(), ids->end()));
  };
  if (prompt == nullptr) {
    fields.fault("prompt", "prompt: is missing");
  } else if (prompt->is_string()) {
    completion.prompts.emplace_back(prompt->get<std::string>());
  } else if (!prompt->is_array() || prompt->empty()) {
    fields.fault("prompt", "prompt: must be a string, a list of strings, or token ids");
  } else if (prompt->front().is_number()) {
    add_ids(*prompt);
  } else if (prompt->size() > kPromptsMax) {
    fields.fault("prompt", fmt::format("prompt: {} prompts are over the limit of {}", prompt->size(), kPromptsMax));
  } else {
    for (const Json& item : *prompt) {
      if (item.is_string()) {
        completion.prompts.emplace_back(item.get<std::string>());
      } else {
        add_ids(item);
      }
    }
  }
  refuse_unsupported(fields);
  fields.refuse_unknown();
  if (!fields.ok()) return std::unexpected(fields.take_error());
  return completion;
}

}  // namespace quern::openai
