#include "inspect_report.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <type_traits>

#include "base/mapped_file.h"
#include "base/status.h"
#include "formats/gguf/gguf_folder.h"
#include "formats/hf_folder.h"
#include "models/kv_layout.h"
#include "models/model_config.h"

namespace quern::cli {
namespace {

namespace fs = std::filesystem;

// Keys of files are unique already, and the search for an equal one that Json makes would take a second pass over all
// of them.
void append(Json::object_t& object, const std::string& key, Json value) {
  std::vector<Json::object_t::value_type>& members = object;
  members.emplace_back(key, std::move(value));
}

// A float32 of the file as the shortest decimal that names it: 1e-06, not 9.999999974752427e-07.
Json number_json(uint32_t type, double value) {
  if (type != static_cast<uint32_t>(GgufType::kF32) || !std::isfinite(value)) return value;
  return std::strtod(fmt::format("{}", static_cast<float>(value)).c_str(), nullptr);
}

Json array_json(const GgufArray& array) {
  return std::visit(
      [&](const auto& items) {
        Json list = Json::array();
        for (const auto& item : items) {
          using Item = std::decay_t<decltype(item)>;
          if constexpr (std::is_same_v<Item, GgufArray>) {
            list.push_back(array_json(item));
          } else if constexpr (std::is_same_v<Item, double>) {
            list.push_back(number_json(array.element_type, item));
          } else {
            list.push_back(item);
          }
        }
        return list;
      },
      array.items);
}

Json value_json(const GgufValue& value) {
  return std::visit(
      [&](const auto& held) -> Json {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, GgufArray>) {
          return array_json(held);
        } else if constexpr (std::is_same_v<Held, double>) {
          return number_json(value.type, held);
        } else {
          return held;
        }
      },
      value.value);
}

Json metadata_json(const Inspected& inspected) {
  Json::object_t object;
  if (inspected.source.gguf) {
    for (const auto& [key, value] : inspected.source.gguf->metadata().pairs()) append(object, key, value_json(value));
  } else {
    for (const auto& [key, value] : inspected.source.safetensors->metadata()) append(object, key, value);
  }
  return object;
}

struct Totals {
  int64_t tensors = 0, parameters = 0;
  uint64_t bytes = 0;

  void add(const TensorView& tensor) {
    ++tensors;
    parameters += tensor.elements();
    bytes += tensor.bytes.size();
  }
};

// Per dtype name, and of all under "".
std::map<std::string_view, Totals> count(const TensorFile& file) {
  std::map<std::string_view, Totals> totals;
  totals[""];
  for (const TensorView& tensor : file.tensors()) {
    totals[""].add(tensor);
    totals[dtype_info(tensor.dtype).name].add(tensor);
  }
  return totals;
}

// One line of at most `bytes_max` bytes: JSON's notation, which escapes control characters, cut with "…".
std::string shown(const Json& value, size_t bytes_max) {
  constexpr size_t kItemsMax = 6;
  std::string text;
  if (value.is_array() && value.size() > kItemsMax) {
    Json first = Json::array();
    for (size_t i = 0; i < kItemsMax; ++i) first.push_back(value[i]);
    text = dump_json(first);
    text.back() = ',';
    text += fmt::format(" … {} in all]", value.size());
  } else {
    text = value.is_string() ? value.dump(-1, ' ', true, Json::error_handler_t::replace) : dump_json(value);
  }
  if (text.size() <= bytes_max) return text;
  size_t cut = bytes_max;
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xc0u) == 0x80u) --cut;
  return text.substr(0, cut) + "…";
}

// A key or a tensor's name: as above, without the quotes.
std::string shown_name(const std::string& name) {
  const std::string quoted = shown(name, 100);
  return quoted.ends_with('"') ? quoted.substr(1, quoted.size() - 2) : quoted.substr(1);
}

std::string megabytes(uint64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

std::string container_line(const Inspected& inspected) {
  if (!inspected.source.gguf) return "safetensors";
  const GgufFile& gguf = *inspected.source.gguf;
  return fmt::format("GGUF version {}, {} part{}", gguf.version(), gguf.num_parts(), gguf.num_parts() == 1 ? "" : "s");
}

constexpr std::pair<const char*, KvDType> kCacheTypes[] = {{"f32", KvDType::kF32},
                                                           {"f16", KvDType::kF16},
                                                           {"bf16", KvDType::kBF16},
                                                           {"q8_0", KvDType::kQ8_0},
                                                           {"q4_0", KvDType::kQ4_0}};

bool has_cache(const Inspected& inspected) {
  return inspected.model && inspected.model->kind == ModelKind::kDecoder;
}

// Elements the cache holds per token in one layer: key and value of every head, or the one latent.
int64_t cache_values(const ModelConfig& config) {
  return static_cast<int64_t>(kv_bytes_per_token(config, KvDType::kF16, KvDType::kF16)) / 2 / config.num_layers;
}

// Bytes per token that stay once it is behind all windows; nullopt: there are none.
std::optional<int64_t> bytes_behind_windows(const ModelConfig& config) {
  const KvLayout layout = window_kv_groups(kv_layer_specs(config, KvDType::kF16, KvDType::kF16),
                                           config.attention.window, config.context_length);
  const auto full = std::ranges::count(layout.windows, 0);
  if (full == layout.num_groups()) return std::nullopt;
  return full * layout.block_bytes() / kKvBlockSize;
}

void add_model(const Inspected& inspected, Json& report) {
  if (!inspected.model) return;
  const ModelConfig& config = *inspected.model;
  report["model"] = {
      {"family", config.family}, {"context_length", config.context_length}, {"layers", config.num_layers}};
  if (!has_cache(inspected)) return;
  Json cache = {{"bytes_per_token", kv_bytes_per_token(config, KvDType::kF16, KvDType::kF16)},
                {"dtype", "f16"},
                {"values_per_token_and_layer", cache_values(config)}};
  if (const auto behind = bytes_behind_windows(config)) cache["bytes_per_token_behind_windows"] = *behind;
  const MlaConfig& mla = config.attention.mla;
  if (mla.kv_lora_rank > 0) cache["latent"] = {{"kv_lora_rank", mla.kv_lora_rank}, {"rope_dim", mla.rope_dim}};
  for (const auto& [name, dtype] : kCacheTypes) {
    cache["bytes_per_token_as"][name] = kv_bytes_per_token(config, dtype, dtype);
  }
  report["kv_cache"] = std::move(cache);
}

std::string model_text(const Inspected& inspected) {
  if (!inspected.model) return "";
  const ModelConfig& config = *inspected.model;
  std::string text =
      fmt::format("\nmodel    {}, {} layers, context {}\n", config.family, config.num_layers, config.context_length);
  if (!has_cache(inspected)) return text;
  const MlaConfig& mla = config.attention.mla;
  text += fmt::format("kv cache {} bytes per token (f16; {} values per layer: {})",
                      kv_bytes_per_token(config, KvDType::kF16, KvDType::kF16), cache_values(config),
                      mla.kv_lora_rank > 0
                          ? fmt::format("a latent of {} and a rotated key of {}", mla.kv_lora_rank, mla.rope_dim)
                          : fmt::format("{} heads, keys of {}, values of {}", config.attention.num_kv_heads,
                                        config.attention.head_dim, config.attention.value_dim));
  for (const auto& [name, dtype] : kCacheTypes) {
    if (dtype != KvDType::kF16) text += fmt::format(", {} {}", name, kv_bytes_per_token(config, dtype, dtype));
  }
  if (const auto behind = bytes_behind_windows(config)) text += fmt::format("; {} (f16) behind the windows", *behind);
  return text + "\n";
}

Result<bool> has_gguf_magic(const fs::path& path) {
  QUERN_ASSIGN(const MappedFile file, MappedFile::open(path));
  constexpr std::string_view kMagic = "GGUF";
  const auto bytes = file.bytes();
  return bytes.size() >= kMagic.size() && std::ranges::equal(kMagic, bytes.first(kMagic.size()), {}, {},
                                                             [](std::byte b) { return static_cast<char>(b); });
}

}  // namespace

Result<Inspected> open_inspected(const fs::path& model) {
  QUERN_ASSIGN(const fs::path path, gguf_in_folder(model));
  Inspected inspected;
  ModelSource& source = inspected.source;
  source.path = path;
  std::error_code ignored;
  const bool is_folder = fs::is_directory(path, ignored);
  bool is_gguf = path.extension() == ".gguf" && !is_folder;
  if (!is_folder && !is_gguf && path.extension() != ".safetensors" && path.extension() != ".json") {
    QUERN_ASSIGN(is_gguf, has_gguf_magic(path));
  }
  if (is_gguf) {
    QUERN_ASSIGN(source.gguf, GgufFile::open(path));
  } else {
    QUERN_ASSIGN(source.safetensors, SafetensorsFile::open(path));
  }
  if (is_folder && fs::exists(path / "config.json", ignored)) {
    QUERN_ASSIGN(HfFolder folder, open_hf_folder(path));
    source.folder = std::make_unique<HfFolder>(std::move(folder));
  }
  // A sound container may hold a model that is unknown or impossible: then there is nothing to say about one.
  if (source.gguf || source.folder) {
    if (auto config = read_model_config(source)) inspected.model = std::move(*config);
  }
  return inspected;
}

Json tensor_json(const TensorView& tensor) {
  return {{"name", tensor.name},
          {"dtype", dtype_info(tensor.dtype).name},
          {"shape", tensor.shape},
          {"bytes", tensor.bytes.size()}};
}

Json inspect_json(const Inspected& inspected) {
  Json report;
  report["path"] = inspected.source.path.string();
  report["container"] = inspected.source.gguf ? "gguf" : "safetensors";
  if (inspected.source.gguf) {
    report["version"] = inspected.source.gguf->version();
    report["parts"] = inspected.source.gguf->num_parts();
  }
  report["metadata"] = metadata_json(inspected);
  if (inspected.source.folder) report["config"] = inspected.source.folder->config;
  report["tensors"] = Json::array();
  for (const TensorView& tensor : inspected.tensors().tensors()) report["tensors"].push_back(tensor_json(tensor));
  const auto totals = count(inspected.tensors());
  const Totals& all = totals.at("");
  report["num_tensors"] = all.tensors;
  report["parameters"] = all.parameters;
  report["bytes"] = all.bytes;
  report["dtypes"] = Json::object();
  for (const auto& [dtype, of_dtype] : totals) {
    if (dtype.empty()) continue;
    report["dtypes"][std::string(dtype)] = {
        {"tensors", of_dtype.tensors}, {"parameters", of_dtype.parameters}, {"bytes", of_dtype.bytes}};
  }
  add_model(inspected, report);
  return report;
}

std::string inspect_text(const Inspected& inspected) {
  constexpr size_t kValueBytesMax = 100;
  std::string text = container_line(inspected) + "\n\nmetadata\n";
  const Json metadata = metadata_json(inspected);
  for (const auto& [key, value] : metadata.items())
    text += fmt::format("  {} = {}\n", shown_name(key), shown(value, kValueBytesMax));
  if (inspected.source.folder) {
    text += "\nconfig.json\n";
    for (const auto& [key, value] : inspected.source.folder->config.items())
      text += fmt::format("  {} = {}\n", shown_name(key), shown(value, kValueBytesMax));
  }
  text += "\ntensors\n";
  for (const TensorView& tensor : inspected.tensors().tensors()) {
    text += fmt::format("  {:<48} {:<8} {:>14} bytes  {}\n", shown_name(tensor.name), dtype_info(tensor.dtype).name,
                        tensor.bytes.size(), shape_string(tensor.shape));
  }
  text += "\n";
  const auto totals = count(inspected.tensors());
  for (const auto& [dtype, of_dtype] : totals) {
    if (dtype.empty()) continue;
    text += fmt::format("{:<8} {} tensors, {} parameters, {}\n", dtype, of_dtype.tensors, of_dtype.parameters,
                        megabytes(of_dtype.bytes));
  }
  const Totals& all = totals.at("");
  text += fmt::format("total    {} tensors, {} parameters, {} ({} bytes)\n", all.tensors, all.parameters,
                      megabytes(all.bytes), all.bytes);
  return text + model_text(inspected);
}

}  // namespace quern::cli
