#include "server/ollama/request.h"

#include <limits>

#include "base/status.h"
#include "server/ollama/answer.h"
#include "server/tool_list.h"

namespace quern::ollama {
namespace {

constexpr int64_t kIntMax = std::numeric_limits<int32_t>::max();
constexpr size_t kStopsMax = 64;

// Ollama's own defaults, where the model's makers say nothing.
SamplingOptions ollama_sampling(const ServedModel& model) {
  SamplingOptions sampling;
  sampling.temperature = 0.8f;
  sampling.top_k = 40;
  sampling.top_p = 0.9f;
  model.text->defaults().apply_to(sampling);
  return sampling;
}

void read_sampling(Fields& fields, SamplingOptions& sampling) {
  const auto set = [&](float& target, const char* name, double min, double max) {
    if (const auto value = fields.number(name, min, max)) target = static_cast<float>(*value);
  };
  constexpr double kTiny = std::numeric_limits<float>::min();
  set(sampling.temperature, "temperature", 0, 100);
  set(sampling.top_p, "top_p", kTiny, 1);
  set(sampling.min_p, "min_p", 0, 1);
  set(sampling.typical_p, "typical_p", kTiny, 1);
  set(sampling.repetition_penalty, "repeat_penalty", kTiny, 100);
  set(sampling.presence_penalty, "presence_penalty", -2, 2);
  set(sampling.frequency_penalty, "frequency_penalty", -2, 2);
  if (const auto value = fields.integer("top_k", -1, kIntMax)) sampling.top_k = static_cast<int32_t>(*value);
  if (const auto value =
          fields.integer("seed", std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max())) {
    sampling.seed = static_cast<uint64_t>(*value);
  }
}

ApiResult<Json> read_message(const Json& message, size_t index) {
  const std::string where = fmt::format("messages[{}]", index);
  if (!message.is_object()) return bad_field(where, where + ": must be an object");
  Fields fields(message);
  const auto role = fields.string("role").value_or("");
  if (role != "system" && role != "user" && role != "assistant" && role != "tool") {
    fields.fault("role", fmt::format("role: \"{}\" is not a role", role));
  }
  Json result = {{"role", role}, {"content", fields.string("content").value_or("")}};
  if (const Json* calls = fields.array("tool_calls")) result["tool_calls"] = *calls;
  if (const auto name = fields.string("tool_name")) result["name"] = *name;
  if (const auto id = fields.string("tool_call_id")) result["tool_call_id"] = *id;
  const auto thinking = fields.string("thinking").value_or("");
  if (role == "assistant" && !thinking.empty()) result["reasoning_content"] = thinking;
  if (const Json* images = fields.array("images"); images != nullptr && !images->empty()) {
    fields.fault("images", "images: the model reads text only");
  }
  if (fields.ok()) {
    const auto normal = normalize_calls(result, where);
    if (!normal) return std::unexpected(normal.error());
    return result;
  }
  ApiError error = fields.take_error();
  error.message = where + "." + error.message;
  error.param = where + "." + error.param;
  return std::unexpected(std::move(error));
}

// num_ctx as an upper limit of prompt and answer together.
ApiResult<GenerationRequest> finish(GenerationRequest result, const Options& options) {
  Request& request = result.generation.request;
  request.max_tokens = options.num_predict > 0 ? static_cast<int32_t>(options.num_predict) : 0;
  if (options.num_ctx == 0) return result;
  const int64_t room = options.num_ctx - std::ssize(request.prompt_ids);
  if (room < 1) {
    return bad_field("options.num_ctx", fmt::format("options.num_ctx: a prompt of {} tokens does not fit in {}",
                                                    request.prompt_ids.size(), options.num_ctx));
  }
  const int64_t wanted = request.max_tokens == 0 ? room : request.max_tokens;
  request.max_tokens = static_cast<int32_t>(std::min(room, wanted));
  return result;
}

GenerationRequest begin(Fields& fields, const ModelTable::Choice& choice, Options& options) {
  const ServedModel& model = *choice.model;
  GenerationRequest result{.generation = {.model = &model, .request = {}}};
  result.generation.request.adapter = choice.adapter;
  result.generation.request.sampling = ollama_sampling(model);
  fields.accept({"model", "name"});
  accept_residency(fields);
  result.stream = fields.boolean("stream").value_or(true);
  if (const Json* object = fields.object("options")) {
    options = read_options(*object, model.max_model_len(), result.generation.request, fields);
  }
  if (options.num_predict == 0) result.load_only = true;
  result.format = read_format(fields);
  const bool thinks = read_think(fields, result.template_kwargs);
  result.generation.reader.include_reasoning = thinks;
  if (fields.any("think") != nullptr && thinks && !can_think(model)) {
    fields.fault("think", fmt::format("\"{}\" does not support thinking", model.id));
  }
  refuse_unsupported(fields);
  return result;
}

ApiResult<GenerationRequest> finish_chat(GenerationRequest result, const Options& options, ChatPlanInput input) {
  input.prompt.kwargs = result.template_kwargs;
  input.grammar = std::move(result.format);
  input.grammar_param = "format";
  const auto planned = plan_answer(result.generation, std::move(input));
  if (!planned) return std::unexpected(planned.error());
  return finish(std::move(result), options);
}

}  // namespace

Options read_options(const Json& object, int64_t context, Request& request, Fields& outer) {
  Options options;
  Fields fields(object);
  read_sampling(fields, request.sampling);
  options.num_predict = fields.integer("num_predict", -2, kIntMax).value_or(-1);
  options.num_ctx = fields.integer("num_ctx", 0, kIntMax).value_or(0);
  if (context > 0 && options.num_ctx > context) {
    fields.fault("num_ctx",
                 fmt::format("num_ctx: {} is over the {} tokens this model is served with", options.num_ctx, context));
  }
  if (const auto stops = fields.string_or_strings("stop", kStopsMax)) {
    for (const std::string& stop : *stops) {
      if (stop.empty()) fields.fault("stop", "stop: an empty string cannot end an answer");
      request.stop.push_back(stop);
    }
  }
  if (fields.integer("mirostat", 0, 2).value_or(0) != 0) fields.fault("mirostat", "mirostat: is not supported");
  // How Ollama runs a model on its machine; here the server's own options say that.
  fields.accept({"num_batch", "num_gpu", "main_gpu", "num_thread", "use_mmap", "use_mlock", "numa", "low_vram",
                 "f16_kv", "vocab_only", "num_keep", "mirostat_tau", "mirostat_eta"});
  fields.refuse_unknown();
  if (!fields.ok()) {
    const ApiError error = fields.take_error();
    outer.fault("options." + error.param, "options." + error.message);
  }
  return options;
}

void refuse_unsupported(Fields& fields) {
  const auto refuse_unless = [&](const char* name, auto harmless) {
    const Json* value = fields.any(name);
    if (value != nullptr && !harmless(*value)) fields.fault(name, fmt::format("{}: is not supported", name));
  };
  refuse_unless("logprobs", [](const Json& value) { return value == false; });
  refuse_unless("top_logprobs", [](const Json& value) { return value == 0; });
  for (const char* name : {"images", "context", "suffix", "template"}) {
    refuse_unless(name, [](const Json& value) { return value == "" || value == Json::array(); });
  }
}

// "json" or a schema.
std::optional<GrammarSpec> read_format(Fields& fields) {
  const Json* format = fields.any("format");
  if (format == nullptr || *format == "") return std::nullopt;
  if (*format == "json") return GrammarSpec{.kind = GrammarKind::kJsonObject, .text = {}, .frame = {}};
  if (format->is_object())
    return GrammarSpec{.kind = GrammarKind::kJsonSchema, .text = dump_json(*format), .frame = {}};
  fields.fault("format", "format: must be \"json\" or a schema, an object");
  return std::nullopt;
}

// true, false, or how much. Absent: as the template has it; thoughts are told apart anyway.
bool read_think(Fields& fields, Json& kwargs) {
  const Json* think = fields.any("think");
  if (think == nullptr) return true;
  if (think->is_boolean()) {
    kwargs["enable_thinking"] = *think;
  } else if (*think == "low" || *think == "medium" || *think == "high") {
    kwargs["reasoning_effort"] = *think;
  } else {
    fields.fault("think", "think: must be true, false, low, medium or high");
  }
  return *think != false;
}

ApiResult<Json> read_turns(const Json& messages) {
  Json turns = Json::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    auto message = read_message(messages[i], i);
    if (!message) return std::unexpected(message.error());
    turns.push_back(std::move(*message));
  }
  return turns;
}

void accept_residency(Fields& fields) {
  const Json* keep = fields.any("keep_alive");
  if (keep != nullptr && !keep->is_number() && !keep->is_string()) {
    fields.fault("keep_alive", "keep_alive: must be a number of seconds or a duration");
  }
}

ApiResult<ModelTable::Choice> find_model(const ModelTable& models, const Json& body) {
  if (!body.is_object()) return std::unexpected(ApiError{.message = "the request body must be a JSON object"});
  const char* field = body.contains("model") ? "model" : "name";
  const auto value = body.find(field);
  if (value == body.end() || !value->is_string() || value->get<std::string>().empty()) {
    return bad_field("model", "model is required");
  }
  std::string name = value->get<std::string>();
  constexpr std::string_view kLatest = ":latest";
  if (auto choice = models.choose_any(name)) return choice;
  if (name.ends_with(kLatest)) name.resize(name.size() - kLatest.size());
  if (auto choice = models.choose_any(name)) return choice;
  return std::unexpected(
      ApiError{.status = 404, .message = fmt::format("model '{}' not found", value->get<std::string>())});
}

ToolList read_tools(Fields& fields) {
  ToolList tools;
  if (const Json* list = fields.array("tools")) {
    if (const auto added = add_tools(tools, *list); !added) fields.fault(added.error().param, added.error().message);
  }
  return tools;
}

ApiResult<GenerationRequest> parse_chat(const Json& body, const ModelTable::Choice& model) {
  Fields fields(body);
  Options options;
  GenerationRequest result = begin(fields, model, options);
  const Json* messages = fields.array("messages");
  ToolList tools = read_tools(fields);
  fields.refuse_unknown();
  if (!fields.ok()) return std::unexpected(fields.take_error());
  if (messages == nullptr || messages->empty()) {
    result.load_only = true;
    return result;
  }
  ChatPlanInput input;
  input.set_tools(std::move(tools));
  auto turns = read_turns(*messages);
  if (!turns) return std::unexpected(turns.error());
  // A last turn of the assistant is the beginning of the answer.
  input.prompt.continue_final_message = turns->back()["role"] == "assistant";
  input.prompt.messages = std::move(*turns);
  input.prompt.add_generation_prompt = !input.prompt.continue_final_message;
  return finish_chat(std::move(result), options, std::move(input));
}

ApiResult<GenerationRequest> parse_generate(const Json& body, const ModelTable::Choice& choice) {
  Fields fields(body);
  Options options;
  const ServedModel& model = *choice.model;
  GenerationRequest result = begin(fields, choice, options);
  const auto prompt = fields.string("prompt").value_or("");
  const auto system = fields.string("system").value_or("");
  const bool raw = fields.boolean("raw").value_or(false);
  result.generation.prompt_field = "prompt";
  if (raw && !system.empty()) fields.fault("system", "system: not together with raw");
  if (raw && fields.any("think") != nullptr) fields.fault("think", "think: not together with raw");
  fields.refuse_unknown();
  if (!fields.ok()) return std::unexpected(fields.take_error());
  if (prompt.empty()) {
    result.load_only = true;
    return result;
  }
  if (raw || !model.text->has_chat_template()) {
    auto ids = model.text->encode_prompt(prompt, model.max_model_len());
    if (!ids) return std::unexpected(prompt_error(ids.error(), "prompt"));
    result.generation.request.prompt_ids = std::move(*ids);
    result.generation.plan.grammar = std::move(result.format);
    result.generation.plan.grammar_param = "format";
    return finish(std::move(result), options);
  }
  ChatPlanInput input;
  Json& turns = input.prompt.messages = Json::array();
  if (!system.empty()) turns.push_back({{"role", "system"}, {"content", system}});
  turns.push_back({{"role", "user"}, {"content", prompt}});
  return finish_chat(std::move(result), options, std::move(input));
}

}  // namespace quern::ollama
