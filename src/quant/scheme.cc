#include "quant/scheme.h"

#include <algorithm>

#include "base/status.h"
#include "quant/quantizer.h"

namespace quern {
namespace {

constexpr std::string_view kHybrid = "hybrid";

std::optional<QuantMode> find_mode(std::string_view text) {
  if (text == "none") return QuantMode::kNone;
  if (text == "fp16") return QuantMode::kFp16;
  if (text == "int8") return QuantMode::kInt8;
  if (text == "int4") return QuantMode::kInt4;
  return std::nullopt;
}

// "attention=fp16,ffn=int8", each once, in any order.
Result<QuantScheme> parse_hybrid(std::string_view text) {
  std::optional<QuantMode> attention, ffn;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    const size_t equals = part.find('=');
    const std::string_view name = part.substr(0, equals);
    std::optional<QuantMode>* target = name == "attention" ? &attention : name == "ffn" ? &ffn : nullptr;
    if (target == nullptr || equals == std::string_view::npos) {
      return invalid_argument(fmt::format("quantization: hybrid's '{}' is neither attention=… nor ffn=…", part));
    }
    if (target->has_value()) return invalid_argument(fmt::format("quantization: hybrid names {} twice", name));
    *target = find_mode(part.substr(equals + 1));
    if (!target->has_value()) {
      return invalid_argument(fmt::format("quantization: hybrid's {} '{}' is not one of none, fp16, int8, int4", name,
                                          part.substr(equals + 1)));
    }
  }
  if (!attention || !ffn) {
    return invalid_argument("quantization: hybrid needs both parts, as in hybrid:attention=fp16,ffn=int8");
  }
  return QuantScheme{*attention, *ffn};
}

}  // namespace

QuantMode QuantScheme::output() const {
  const QuantMode finest = std::max(attention, ffn);
  return std::min(finest, QuantMode::kInt8);
}

std::optional<DType> QuantScheme::target(WeightRole role, DType source, int64_t cols) const {
  if (role == WeightRole::kKept || !is_rounding_source(source)) return std::nullopt;
  const QuantMode mode = role == WeightRole::kAttention ? attention : role == WeightRole::kFfn ? ffn : output();
  switch (mode) {
    case QuantMode::kNone: return std::nullopt;
    case QuantMode::kFp16:
      if (source != DType::kF32 && source != DType::kF64) return std::nullopt;
      return DType::kF16;
    case QuantMode::kInt8:
    case QuantMode::kInt4: break;
  }
  const DType dtype = mode == QuantMode::kInt8 ? DType::kQ8_0 : DType::kQ4_1;
  if (cols % dtype_info(dtype).block_elements != 0) return std::nullopt;
  return dtype;
}

Result<QuantScheme> parse_quant_scheme(std::string_view text) {
  if (const auto mode = find_mode(text)) return QuantScheme{*mode, *mode};
  if (text == kHybrid) return parse_hybrid({});
  if (text.starts_with(kHybrid) && text.substr(kHybrid.size()).starts_with(':')) {
    return parse_hybrid(text.substr(kHybrid.size() + 1));
  }
  return invalid_argument(
      fmt::format("quantization: '{}' is not one of none, fp16, int8, int4, hybrid:attention=MODE,ffn=MODE", text));
}

std::string describe(const QuantReport& report, std::string_view scheme) {
  if (scheme == "none") return {};
  if (report.rounded == 0 && report.quantized > 0) {
    return fmt::format("quantization {}: the file's weights are quantised already, nothing changes", scheme);
  }
  if (report.rounded == 0 && report.odd == 0) {
    return fmt::format("quantization {}: no weight is of a wider type, nothing changes", scheme);
  }
  if (report.odd > 0) {
    return fmt::format("quantization {}: {} matrices stay as they are, their rows are no multiple of 32 ({})", scheme,
                       report.odd, report.first_odd);
  }
  if (report.quantized > 0) {
    return fmt::format("quantization {}: {} matrices stay as they are, the file has them quantised already", scheme,
                       report.quantized);
  }
  return {};
}

}  // namespace quern
