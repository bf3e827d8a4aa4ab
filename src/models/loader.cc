#include "models/loader.h"

#include <algorithm>
#include <cstring>

#include "base/status.h"
#include "formats/gguf/gguf_folder.h"
#include "models/bind_decoder.h"
#include "models/check_config.h"
#include "models/decoder.h"
#include "models/encoders/encoder_config.h"
#include "models/family.h"

namespace quern {
namespace {

std::unexpected<Error> in_file(const ModelSource& source, Error error) {
  error.message = source.path.string() + ": " + error.message;
  return std::unexpected(std::move(error));
}

// End tokens of generation_config.json come first: they are what the model's makers stop at.
void add_eos(const Json& json, ModelConfig& config) {
  HfConfigReader reader(json);
  std::vector<int32_t> ids;
  const auto add = [&](int64_t id) {
    if (id < 0 || id >= config.vocab_size) return;
    const auto narrow = static_cast<int32_t>(id);
    if (std::ranges::find(ids, narrow) == ids.end()) ids.push_back(narrow);
  };
  for (int64_t id : reader.ints({"eos_token_id"}, 64)) add(id);
  for (int32_t id : config.eos_ids) add(id);
  config.eos_ids = std::move(ids);
}

Status read_quantization(HfConfigReader& reader) {
  const std::string method = reader.string_or({"quantization_config.quant_method"}, "");
  if (method.empty() || method == "mxfp4") return {};
  return unsupported(fmt::format("quantization_config.quant_method \"{}\" is not supported", method));
}

// A multimodal checkpoint puts the text model's tensors under one more name; the towers of other media are not read.
void add_wrapper_names(TensorNames& names) {
  names.prefixes.push_back("language_model.model.");
  names.prefixes.push_back("model.language_model.");
  names.outputs.push_back("language_model.lm_head");
  for (const char* part : {"vision_tower.*", "multi_modal_projector.*"}) {
    names.ignored.push_back(part);
    names.ignored.push_back(std::string("model.") + part);
  }
}

Result<ModelConfig> read_hf_config(const HfFolder& folder, const Family*& family) {
  HfConfigReader outer(folder.config);
  const std::string type = outer.string_or({"model_type"}, "");
  QUERN_TRY(outer.status());
  const Json* text_config = outer.find("text_config");
  const bool is_wrapper = text_config != nullptr && find_hf_wrapper_family(type) != nullptr;
  family = is_wrapper ? find_hf_wrapper_family(type) : find_hf_family(type);
  HfConfigReader reader(is_wrapper ? *text_config : folder.config);
  if (family == nullptr || family->read_hf == nullptr) {
    return unsupported(fmt::format("model_type \"{}\" is not supported", type));
  }
  QUERN_TRY(read_quantization(outer));
  ModelConfig config;
  config.family = family->name;
  family->read_hf(reader, config);
  QUERN_TRY(reader.status());
  if (is_wrapper) add_eos(folder.config, config);
  if (folder.generation_config.is_object()) add_eos(folder.generation_config, config);
  return config;
}

// The rows of the embedding table: files need not say the size of the vocabulary.
int32_t gguf_vocab_size(const GgufFile& file, GgufConfigReader& reader) {
  if (const TensorView* embed = file.find("token_embd.weight"); embed != nullptr && embed->shape.size() == 2) {
    const int64_t rows = embed->shape[0];
    if (rows >= 1 && rows <= kVocabMax) return static_cast<int32_t>(rows);
    reader.fail(fmt::format("token_embd.weight has {} rows, must have 1 to {}", rows, kVocabMax));
    return 1;
  }
  return reader.int_or({"vocab_size"}, 1, {1, kVocabMax});
}

// Divisors of the rotary frequencies are tensors in GGUF (llama 3, longrope).
Status read_rope_factors(const GgufFile& file, ModelConfig& config) {
  const auto read = [&](const char* name, std::vector<float>& out) -> Status {
    const TensorView* view = file.find(name);
    if (view == nullptr || config.ropes.empty()) return {};
    const int64_t half = config.ropes[0].rotary_dim / 2;
    if (view->dtype != DType::kF32 || view->shape != Shape{half}) {
      return invalid_file(fmt::format("tensor {} is {} {}, must be F32 [{}]", name, dtype_info(view->dtype).name,
                                      shape_string(view->shape), half));
    }
    out.resize(static_cast<size_t>(half));
    std::memcpy(out.data(), view->bytes.data(), view->bytes.size());
    for (float factor : out) {
      if (!(factor > 0.0f && factor < 1e9f))
        return invalid_file(fmt::format("tensor {} has the value {}", name, factor));
    }
    return {};
  };
  if (config.ropes.empty()) return {};
  RopeConfig& rope = config.ropes[0];
  QUERN_TRY(read("rope_freqs.weight", rope.short_factors));
  QUERN_TRY(read("rope_factors_short.weight", rope.short_factors));
  QUERN_TRY(read("rope_factors_long.weight", rope.long_factors));
  if (!rope.long_factors.empty()) rope.scaling = RopeScaling::kLongRope;
  return {};
}

Result<ModelConfig> read_gguf_config(const GgufFile& file, const Family*& family) {
  QUERN_ASSIGN(const std::string architecture, file.metadata().get_string("general.architecture"));
  family = find_gguf_family(architecture);
  if (family == nullptr || family->read_gguf == nullptr) {
    return unsupported(fmt::format("general.architecture \"{}\" is not supported", architecture));
  }
  GgufConfigReader reader(file.metadata(), architecture, &file);
  ModelConfig config;
  config.family = family->name;
  config.vocab_size = gguf_vocab_size(file, reader);
  config.tied_output = file.find("output.weight") == nullptr;
  family->read_gguf(reader, config);
  QUERN_TRY(reader.status());
  QUERN_TRY(read_rope_factors(file, config));
  return config;
}

Result<ModelConfig> read_config(const ModelSource& source, const Family*& family) {
  if (is_encoder_source(source)) {
    auto encoder = read_encoder_config(source);
    if (!encoder) return in_file(source, std::move(encoder).error());
    return to_model_config(*encoder);
  }
  auto config = source.gguf ? read_gguf_config(*source.gguf, family) : read_hf_config(*source.folder, family);
  if (!config) return in_file(source, std::move(config).error());
  if (Status status = check_model_config(*config); !status) return in_file(source, std::move(status).error());
  return config;
}

}  // namespace

const TensorFile* ModelSource::tensors() const {
  if (gguf) return gguf.get();
  return safetensors.get();
}

Result<std::unique_ptr<ModelSource>> open_model_source(const std::filesystem::path& model) {
  QUERN_ASSIGN(const std::filesystem::path path, gguf_in_folder(model));
  auto source = std::make_unique<ModelSource>();
  source->path = path;
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    QUERN_ASSIGN(source->gguf, GgufFile::open(path));
    return source;
  }
  QUERN_ASSIGN(HfFolder folder, open_hf_folder(path));
  source->folder = std::make_unique<HfFolder>(std::move(folder));
  auto weights = SafetensorsFile::open(path);
  if (weights) {
    source->safetensors = std::move(*weights);
  } else if (weights.error().code != ErrorCode::kNotFound) {
    return std::unexpected(std::move(weights).error());
  }
  return source;
}

Result<ModelConfig> read_model_config(const ModelSource& source) {
  const Family* family = nullptr;
  return read_config(source, family);
}

Result<std::unique_ptr<DecoderModel>> load_decoder(const ModelSource& source, Device& device,
                                                   const LoadOptions& options) {
  const Family* family = nullptr;
  QUERN_ASSIGN(ModelConfig config, read_config(source, family));
  if (config.kind != ModelKind::kDecoder) {
    return in_file(source, {ErrorCode::kUnsupported, fmt::format("a {} model does not generate text", config.family)});
  }
  const TensorFile* file = source.tensors();
  if (file == nullptr) return in_file(source, {ErrorCode::kNotFound, "the folder has no weights"});

  TensorNames names = source.gguf ? gguf_tensor_names() : TensorNames{};
  const auto adjust = source.gguf ? family->gguf_names : family->hf_names;
  if (adjust != nullptr) adjust(config, names);
  if (source.folder && source.folder->config.contains("text_config")) add_wrapper_names(names);
  auto weights = bind_decoder(*file, names, config, device, options);
  if (!weights) return in_file(source, std::move(weights).error());
  return std::make_unique<Decoder>(std::move(config), std::move(*weights), device);
}

}  // namespace quern
