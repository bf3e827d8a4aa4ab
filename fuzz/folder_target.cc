// Model folders: safetensors, its index, config.json, and the two together.
#include "base/check.h"
#include "base/json.h"
#include "base/status.h"
#include "formats/safetensors/header.h"
#include "formats/safetensors/safetensors_file.h"
#include "model_run.h"
#include "models/model_config.h"
#include "seeds.h"
#include "targets.h"
#include "tensor_run.h"

namespace quern::fuzz {
namespace {

constexpr JsonLimits kConfigLimits{.depth_max = 64, .bytes_max = 16u << 20};

Result<Json> parse_config(std::string_view text) {
  QUERN_ASSIGN(Json json, parse_json(text, "config.json", kConfigLimits));
  if (!json.is_object()) return invalid_file("config.json: not an object");
  return json;
}

// The golden folder that the first byte of `input` names; the rest stays in `input`. Null for an empty input.
std::unique_ptr<ModelSource> take_folder(std::string_view& input) {
  if (input.empty()) return nullptr;
  const auto& folders = golden_folders();
  const auto& path = folders[static_cast<unsigned char>(input[0]) % folders.size()];
  input.remove_prefix(1);
  auto source = open_model_source(path);
  QUERN_CHECK(source.has_value());
  return std::move(*source);
}

}  // namespace

void run_safetensors(std::string_view file) {
  auto parsed = SafetensorsFile::parse(std::as_bytes(std::span(file)), "file.safetensors");
  if (!parsed) return check_refusal(parsed.error());
  run_tensors(**parsed);
}

void run_index(std::string_view json) {
  if (auto index = parse_safetensors_index(json, "index.json"); !index) check_refusal(index.error());
}

void run_config(std::string_view text) {
  auto json = parse_config(text);
  if (!json) return check_refusal(json.error());
  ModelSource source;
  source.path = "folder";
  source.folder = std::make_unique<HfFolder>();
  source.folder->config = std::move(*json);
  auto config = read_model_config(source);
  if (!config) return check_refusal(config.error());
  kv_bytes_per_token(*config, KvDType::kF32, KvDType::kQ8_0);
}

void run_folder_config(std::string_view input) {
  const auto source = take_folder(input);
  if (!source) return;
  auto json = parse_config(input);
  if (!json) return check_refusal(json.error());
  source->folder->config = std::move(*json);
  run_model(*source);
}

void run_folder_weights(std::string_view input) {
  const auto source = take_folder(input);
  if (!source) return;
  auto parsed = SafetensorsFile::parse(std::as_bytes(std::span(input)), "model.safetensors");
  if (!parsed) return check_refusal(parsed.error());
  source->safetensors = std::move(*parsed);
  run_model(*source);
}

}  // namespace quern::fuzz
