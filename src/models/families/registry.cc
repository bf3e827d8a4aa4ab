#include "models/families/families.h"

namespace quern {
namespace {

constexpr const Family* kFamilies[] = {
    &kCohere2Family,    &kCohereFamily,   &kDeepseekV2Family, &kDeepseekV3Family, &kExaone4Family,   &kExaoneFamily,
    &kFalconFamily,     &kGemma2Family,   &kGemma3Family,     &kGemmaFamily,      &kGlm4Family,      &kGlmFamily,
    &kGpt2Family,       &kGptNeoxFamily,  &kGptOssFamily,     &kGraniteFamily,    &kInternlm2Family, &kLlamaFamily,
    &kMinicpmFamily,    &kMistralFamily,  &kMixtralFamily,    &kOlmo2Family,      &kPhi3Family,      &kPhiFamily,
    &kQwen2Family,      &kQwen2MoeFamily, &kQwen3Family,      &kQwen3MoeFamily,   &kSmollm3Family,   &kStablelmFamily,
    &kStarcoder2Family,
};

bool lists(const std::array<std::string_view, 4>& names, std::string_view name) {
  for (std::string_view known : names) {
    if (!known.empty() && known == name) return true;
  }
  return false;
}

}  // namespace

std::span<const Family* const> families() {
  return kFamilies;
}

const Family* find_hf_family(std::string_view model_type) {
  for (const Family* family : kFamilies) {
    if (lists(family->hf_types, model_type)) return family;
  }
  return nullptr;
}

const Family* find_hf_wrapper_family(std::string_view model_type) {
  for (const Family* family : kFamilies) {
    if (lists(family->hf_wrapper_types, model_type)) return family;
  }
  return nullptr;
}

const Family* find_gguf_family(std::string_view architecture) {
  for (const Family* family : kFamilies) {
    if (lists(family->gguf_architectures, architecture)) return family;
  }
  return nullptr;
}

const Family* find_family(std::string_view name) {
  for (const Family* family : kFamilies) {
    if (family->name == name) return family;
  }
  return nullptr;
}

}  // namespace quern
