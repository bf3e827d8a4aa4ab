#include "serve_config.h"

#include <algorithm>

#include "base/status.h"
#include "engine/device_choice.h"
#include "platform/config/server_config.h"

namespace quern::cli {
namespace {

// Options of the command that the file says elsewhere or cannot say.
struct Elsewhere {
  std::string_view option;
  std::string_view words;
};
constexpr Elsewhere kElsewhere[] = {
    {"model", "write model or models, beside serve"},
    {"device", "write compute.device"},
    {"quantization", "write quantization.mode"},
    {"lora_modules", "write adapters, beside serve"},
    {"config", "a file names no other"},
    {"help", "no setting"},
};

// Options whose value is a path: of the file's author, relative to the file.
constexpr std::string_view kPaths[] = {"api_key_file", "ssl_certfile",       "ssl_keyfile", "lora_dir",
                                       "jobs_folder",  "xxl_job_token_file", "kv_disk",     "store",
                                       "uds",          "speculative_model"};

bool was_given(const CLI::App& command, const char* option) {
  return command.get_option(option)->count() > 0;
}

std::string option_name(std::string_view key) {
  std::string name = "--" + std::string(key);
  std::ranges::replace(name, '_', '-');
  return name;
}

// As if the option had been typed, with the same checks.
Status apply_option(const ServerConfig& config, const ConfigValue& value, CLI::App& command) {
  const std::string_view key = std::string_view(value.key).substr(value.key.find('.') + 1);
  for (const auto& [option, words] : kElsewhere) {
    if (key == option) return std::unexpected(config.refusal(value, {ErrorCode::kInvalidFile, std::string(words)}));
  }
  CLI::Option* option = command.get_option_no_throw(option_name(key));
  if (option == nullptr) return std::unexpected(config.refusal(value, {ErrorCode::kInvalidFile, "unknown key"}));
  if (option->count() > 0) return {};
  const bool many =
      option->get_expected_max() > 1 || option->get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
  if (value.is_list && !many) {
    return std::unexpected(config.refusal(value, {ErrorCode::kInvalidFile, "is a list, must be a value"}));
  }
  const bool is_path = std::ranges::find(kPaths, key) != std::end(kPaths);
  try {
    for (const std::string& text : value.is_list ? value.list : std::vector<std::string>{value.text}) {
      option->add_result(is_path && text != ":memory:" ? config.resolve(text) : text);
    }
    if (option->count() > 0) option->run_callback();
  } catch (const CLI::Error& error) {
    return std::unexpected(
        config.refusal(value, {ErrorCode::kInvalidFile, fmt::format("'{}' is refused: {}", value.text, error.what())}));
  }
  return {};
}

Status apply_compute(const ServerConfig& config, const CLI::App& command, EngineOptions& engine) {
  if (config.device && !was_given(command, "--device")) {
    if (const Status known = check_device_name(config.device->text); !known) {
      return std::unexpected(config.refusal(*config.device, known.error()));
    }
    engine.device = config.device->text;
  }
  if (config.quantization && !was_given(command, "--quantization")) engine.quantization = config.quantization->text;
  return {};
}

// Beside those of the command line, whose names win.
void add_adapters(const ServerConfig& config, EngineOptions& engine) {
  const std::vector<AdapterInfo> given = engine.adapters;
  for (const ConfigAdapter& adapter : config.adapters) {
    if (std::ranges::find(given, adapter.name.text, &AdapterInfo::name) != given.end()) continue;
    engine.adapters.push_back({.name = adapter.name.text, .path = adapter.path.text, .scale = adapter.alpha});
  }
}

}  // namespace

Status apply_config(const std::string& file, CLI::App& command, ConfigTargets targets) {
  QUERN_ASSIGN(const ServerConfig config, read_server_config(file));
  QUERN_TRY(apply_compute(config, command, targets.engine));
  for (const ConfigValue& value : config.serve) QUERN_TRY(apply_option(config, value, command));
  if (!targets.models_given) {
    for (const ConfigValue& model : config.models) targets.models.push_back(model.text);
  }
  add_adapters(config, targets.engine);
  return {};
}

}  // namespace quern::cli
