#include "base/status.h"
#include "models/encoders/decoder_embedder.h"
#include "models/encoders/encoder_model.h"
#include "models/encoders/encoder_names.h"
#include "models/encoders/encoder_readers.h"

namespace quern {
namespace {

Result<std::unique_ptr<EncoderModel>> load(const ModelSource& source, Device& device, const LoadOptions& options) {
  QUERN_ASSIGN(EncoderConfig config, read_encoder_config(source));
  const TensorFile* file = source.tensors();
  if (file == nullptr) return not_found("the folder has no weights");
  const EncoderNames names = encoder_names(config, source.gguf != nullptr);
  QUERN_ASSIGN(EncoderWeights weights, bind_encoder(*file, names, config, device, options));
  return std::make_unique<EncoderForward>(std::move(config), std::move(weights), device);
}

Status read_pooling(const ModelSource& source, const std::string& family, DecoderEmbedder::Options& options) {
  if (source.folder) return read_sentence_files(*source.folder, options.pooling, options.normalize);
  const auto architecture = source.gguf->metadata().get_string("general.architecture");
  const std::string key = architecture.value_or(family) + ".pooling_type";
  if (source.gguf->metadata().find(key) == nullptr) return {};
  QUERN_ASSIGN(const int64_t kind, source.gguf->metadata().get_int(key));
  const std::optional<Pooling> pooling = gguf_pooling(kind);
  if (!pooling) return unsupported(fmt::format("{} {} is not supported", key, kind));
  options.pooling = *pooling;
  return {};
}

Result<std::unique_ptr<EncoderModel>> load_embedder(const ModelSource& source, Device& device,
                                                    const LoadOptions& load_options) {
  QUERN_ASSIGN(auto decoder, load_decoder(source, device, load_options));
  DecoderEmbedder::Options options;
  options.kv_dtype = load_options.precision == Precision::kExact ? KvDType::kF32 : KvDType::kF16;
  if (Status status = read_pooling(source, decoder->config().family, options); !status) {
    return make_error(status.error().code, source.path.string() + ": " + status.error().message);
  }
  return std::make_unique<DecoderEmbedder>(std::move(decoder), device, options);
}

}  // namespace

Result<std::unique_ptr<EncoderModel>> load_encoder(const ModelSource& source, Device& device,
                                                   const LoadOptions& options) {
  if (!is_encoder_source(source)) return load_embedder(source, device, options);
  auto model = load(source, device, options);
  if (!model) return make_error(model.error().code, source.path.string() + ": " + model.error().message);
  return model;
}

}  // namespace quern
