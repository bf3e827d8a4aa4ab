#include "quantization_report.h"

#include <algorithm>

#include "base/status.h"
#include "engine/encoder_queue.h"
#include "kernels/cpu/memory_meter.h"

namespace quern::cli {

Result<Json> quantization_json(const ModelSource& source, const std::string& scheme) {
  QUERN_ASSIGN(const QuantScheme parsed, parse_quant_scheme(scheme));
  QuantReport report{.measure = true};
  const LoadOptions options(Precision::kFast, parsed, &report);
  MemoryMeter meter;
  Json json = {{"path", source.path.string()}, {"quantization", scheme}};
  if (is_encoding_source(source)) {
    QUERN_TRY(load_encoder(source, meter, options));
  } else {
    QUERN_ASSIGN(const auto model, load_decoder(source, meter, options));
    json["weight_bytes_per_token"] = model->decode_cost().weight_bytes;
  }
  Json tensors = Json::array();
  for (const RoundedTensor& tensor : report.tensors) {
    tensors.push_back({{"name", tensor.name},
                       {"dtype", dtype_info(tensor.from).name},
                       {"held_as", dtype_info(tensor.to).name},
                       {"max_error", tensor.error.largest},
                       {"rms_error", tensor.error.rms()},
                       {"relative_rms_error", tensor.error.relative_rms()}});
  }
  json["tensors"] = std::move(tensors);
  json["rounded"] = report.rounded;
  json["kept_quantized"] = report.quantized;
  json["kept_odd"] = report.odd;
  json["bytes"] = report.source_bytes;
  json["bytes_rounded"] = report.rounded_bytes;
  return json;
}

std::string quantization_text(const Json& report) {
  std::vector<Json> tensors(report["tensors"].begin(), report["tensors"].end());
  std::ranges::stable_sort(tensors, {}, [](const Json& tensor) { return tensor["relative_rms_error"].get<double>(); });
  std::string text;
  for (const Json& tensor : tensors) {
    text += fmt::format("{:<48} {:>4} → {:<4}  largest error {:.3e}, rms {:.3e} ({:.2f} %)\n",
                        dump_json(tensor["name"]), tensor["dtype"].get<std::string>(),
                        tensor["held_as"].get<std::string>(), tensor["max_error"].get<double>(),
                        tensor["rms_error"].get<double>(), 100 * tensor["relative_rms_error"].get<double>());
  }
  text += fmt::format("{} matrices rounded, {} were quantised already, {} stay for their width; {} bytes become {}\n",
                      report["rounded"].get<int64_t>(), report["kept_quantized"].get<int64_t>(),
                      report["kept_odd"].get<int64_t>(), report["bytes"].get<int64_t>(),
                      report["bytes_rounded"].get<int64_t>());
  if (report.contains("weight_bytes_per_token")) {
    text += fmt::format("a token reads {} bytes of weights\n", report["weight_bytes_per_token"].get<int64_t>());
  }
  return text;
}

}  // namespace quern::cli
