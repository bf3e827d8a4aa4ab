// The files sentence-transformers puts beside an encoder: which modules follow it, and how it is pooled.
#include <algorithm>
#include <utility>

#include "base/status.h"
#include "models/encoders/encoder_readers.h"

namespace quern {
namespace {

constexpr std::pair<std::string_view, Pooling> kModes[] = {
    {"cls", Pooling::kFirst},
    {"mean", Pooling::kMean},
    {"max", Pooling::kMax},
    {"lasttoken", Pooling::kLast},
    {"mean_sqrt_len_tokens", Pooling::kMeanSqrtLen},
};
// The older spelling: one boolean per mode.
constexpr std::pair<std::string_view, std::string_view> kFlags[] = {
    {"pooling_mode_cls_token", "cls"},
    {"pooling_mode_mean_tokens", "mean"},
    {"pooling_mode_max_tokens", "max"},
    {"pooling_mode_lasttoken", "lasttoken"},
    {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens"},
    {"pooling_mode_weightedmean_tokens", "weightedmean"},
};

Result<std::string> pooling_mode(const Json& pooling) {
  if (const auto it = pooling.find("pooling_mode"); it != pooling.end() && it->is_string()) {
    return it->get<std::string>();
  }
  std::string mode;
  for (const auto& [key, name] : kFlags) {
    const auto it = pooling.find(std::string(key));
    if (it == pooling.end() || !it->is_boolean() || !it->get<bool>()) continue;
    if (!mode.empty()) {
      return unsupported(fmt::format("1_Pooling/config.json: {} together with {} is not supported", name, mode));
    }
    mode = name;
  }
  return mode;
}

Status read_pooling(const Json& config, Pooling& pooling) {
  QUERN_ASSIGN(const std::string mode, pooling_mode(config));
  const auto it = std::ranges::find(kModes, mode, &std::pair<std::string_view, Pooling>::first);
  if (it == std::end(kModes)) {
    return unsupported(fmt::format("1_Pooling/config.json: pooling mode \"{}\" is not supported", mode));
  }
  pooling = it->second;
  return {};
}

}  // namespace

Status read_sentence_files(const HfFolder& folder, Pooling& pooling, bool& normalize) {
  if (folder.pooling.is_object()) QUERN_TRY(read_pooling(folder.pooling, pooling));
  if (!folder.modules.is_array()) return {};
  normalize = false;
  for (const Json& module : folder.modules) {
    const auto type = module.is_object() ? module.find("type") : module.end();
    if (!module.is_object() || type == module.end() || !type->is_string()) {
      return invalid_file("modules.json: a module has no type");
    }
    const std::string name = type->get<std::string>();
    const std::string_view kind = std::string_view(name).substr(name.rfind('.') + 1);
    if (kind == "Normalize") {
      normalize = true;
    } else if (kind != "Transformer" && kind != "Pooling") {
      return unsupported(fmt::format("modules.json: module {} is not supported", name));
    }
  }
  return {};
}

}  // namespace quern
