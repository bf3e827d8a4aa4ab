// LoRA adapters for the golden llama: a PEFT folder or a GGUF file, read, checked and packed.
#include <cstring>

#include "base/check.h"
#include "kernels/ref/reference_device.h"
#include "models/adapters/adapter.h"
#include "models/loader.h"
#include "scratch.h"
#include "seeds.h"
#include "targets.h"

namespace quern::fuzz {
namespace {

const ModelConfig& base_config() {
  static const ModelConfig config = [] {
    auto source = open_model_source(golden_model("llama"));
    QUERN_CHECK(source.has_value());
    auto read = read_model_config(**source);
    QUERN_CHECK(read.has_value());
    return std::move(*read);
  }();
  return config;
}

}  // namespace

void run_adapter(std::string_view input) {
  uint32_t config_size = 0;
  if (input.size() < sizeof(config_size)) return;
  std::memcpy(&config_size, input.data(), sizeof(config_size));
  input.remove_prefix(sizeof(config_size));
  const std::string_view config = input.substr(0, config_size);
  const std::string_view weights = input.substr(config.size());
  const bool is_gguf = weights.starts_with("GGUF");
  const auto config_path = scratch_file("adapter_config.json", config);
  const auto weights_path = scratch_file(is_gguf ? "adapter.gguf" : "adapter_model.safetensors", weights);
  auto data = read_adapter(is_gguf ? weights_path : config_path.parent_path(), base_config());
  if (!data) return check_refusal(data.error());
  ReferenceDevice device;
  const auto adapter = Adapter::create(std::move(*data), device);
  if (!adapter) return check_refusal(adapter.error());
  QUERN_CHECK((*adapter)->rank_max() > 0);
}

}  // namespace quern::fuzz
