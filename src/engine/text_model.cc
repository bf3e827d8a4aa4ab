#include "engine/text_model.h"

#include <limits>

#include "base/check.h"
#include "base/status.h"
#include "formats/gguf/gguf_folder.h"
#include "text/chat_prompt.h"
#include "text/text_length.h"

namespace quern {

namespace {

std::string model_id(std::filesystem::path path) {
  path = path.lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // "models/llama/"
  std::string name = path.filename().string();
  if (name.ends_with(".gguf")) name.resize(name.size() - 5);
  return name;
}

void read_number(const Json& object, const char* key, std::optional<float>& target) {
  if (const auto found = object.find(key); found != object.end() && found->is_number()) target = found->get<float>();
}
void read_number(const Json& object, const char* key, std::optional<int32_t>& target) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer()) return;
  const int64_t value = found->get<int64_t>();
  if (value >= 0 && value <= std::numeric_limits<int32_t>::max()) target = static_cast<int32_t>(value);
}

GenerationDefaults defaults_of_folder(const Json& config) {
  GenerationDefaults defaults;
  if (!config.is_object()) return defaults;
  read_number(config, "temperature", defaults.temperature);
  read_number(config, "top_p", defaults.top_p);
  read_number(config, "min_p", defaults.min_p);
  read_number(config, "typical_p", defaults.typical_p);
  read_number(config, "repetition_penalty", defaults.repetition_penalty);
  read_number(config, "top_k", defaults.top_k);
  read_number(config, "max_new_tokens", defaults.max_new_tokens);
  return defaults;
}

GenerationDefaults defaults_of_gguf(const GgufMetadata& metadata) {
  GenerationDefaults defaults;
  const auto read = [&](const char* key, std::optional<float>& target) {
    if (const auto value = metadata.get_float(key)) target = static_cast<float>(*value);
  };
  read("general.sampling.temp", defaults.temperature);
  read("general.sampling.top_p", defaults.top_p);
  read("general.sampling.min_p", defaults.min_p);
  read("general.sampling.penalty_repeat", defaults.repetition_penalty);
  if (const auto top_k = metadata.get_int("general.sampling.top_k"); top_k && *top_k >= 0 && *top_k < (1 << 30)) {
    defaults.top_k = static_cast<int32_t>(*top_k);
  }
  return defaults;
}

}  // namespace

void GenerationDefaults::apply_to(SamplingOptions& options) const {
  options.temperature = temperature.value_or(options.temperature);
  options.top_p = top_p.value_or(options.top_p);
  options.min_p = min_p.value_or(options.min_p);
  options.typical_p = typical_p.value_or(options.typical_p);
  options.repetition_penalty = repetition_penalty.value_or(options.repetition_penalty);
  options.top_k = top_k.value_or(options.top_k);
}

Result<std::shared_ptr<const TextModel>> TextModel::create(const ModelSource& source) {
  std::shared_ptr<TextModel> model(new TextModel());
  // A split set has one name, whichever part it was opened by.
  const bool is_set = source.gguf && source.gguf->num_parts() > 1;
  model->id_ = is_set ? gguf_model_name(source.path) : model_id(source.path);
  if (source.gguf) {
    const GgufMetadata& metadata = source.gguf->metadata();
    QUERN_ASSIGN(model->tokenizer_, Tokenizer::from_gguf(metadata, source.path.string()));
    if (auto text = metadata.get_string("tokenizer.chat_template")) model->template_text_ = std::move(*text);
    model->defaults_ = defaults_of_gguf(metadata);
  } else {
    const HfFolder& folder = *source.folder;
    if (!folder.tokenizer_json) return not_found(fmt::format("{}: there is no tokenizer.json", source.path.string()));
    QUERN_ASSIGN(model->tokenizer_, Tokenizer::from_file(*folder.tokenizer_json, folder.tokenizer_config));
    model->template_text_ = folder.chat_template;
    model->defaults_ = defaults_of_folder(folder.generation_config);
  }
  if (model->template_text_) model->template_ = ChatTemplate::create(*model->template_text_);
  return model;
}

Result<std::shared_ptr<const TextModel>> TextModel::open(const std::filesystem::path& path) {
  QUERN_ASSIGN(auto source, open_model_source(path));
  return create(*source);
}

Result<std::vector<int32_t>> TextModel::encode_prompt(std::string_view text, int32_t tokens_max) const {
  QUERN_TRY(check_text_length(*tokenizer_, text, tokens_max, "prompt_ids"));
  QUERN_ASSIGN(Encoding encoding, tokenizer_->encode(text, {.add_special = true, .parse_special = true}));
  return std::move(encoding.ids);
}

Result<std::vector<int32_t>> TextModel::encode_chat(TemplateInput input, int32_t tokens_max) const {
  if (!template_text_) return unsupported(fmt::format("{}: the model has no chat template", id_));
  if (!template_) return make_error(template_.error().code, fmt::format("{}: {}", id_, template_.error().message));
  input.special_tokens = tokenizer_->special_tokens();
  QUERN_ASSIGN(const ChatPrompt prompt, render_chat_prompt(**template_, *tokenizer_, input));
  QUERN_TRY(check_text_length(*tokenizer_, prompt.text, tokens_max, "prompt_ids"));
  const EncodeOptions options = {.add_special = true, .parse_special = true, .literal = prompt.literal};
  QUERN_ASSIGN(Encoding encoding, tokenizer_->encode(prompt.text, options));
  return std::move(encoding.ids);
}

}  // namespace quern
