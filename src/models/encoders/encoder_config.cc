#include "models/encoders/encoder_config.h"

#include "base/status.h"
#include "models/encoders/encoder_readers.h"

namespace quern {
namespace {

std::string string_of(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

std::string gguf_architecture(const GgufMetadata& metadata) {
  return metadata.get_string("general.architecture").value_or("");
}

// architectures[0] tells a classifier from an embedding model of the same type.
bool is_classifier(const Json& config) {
  const auto it = config.find("architectures");
  if (it == config.end() || !it->is_array() || it->empty() || !(*it)[0].is_string()) return false;
  return (*it)[0].get<std::string>().ends_with("ForSequenceClassification");
}

Result<EncoderConfig> read_hf(const HfFolder& folder) {
  EncoderConfig config;
  config.family = string_of(folder.config, "model_type");
  const EncoderFamily* family = find_encoder_family(config.family);
  if (family == nullptr) return unsupported(fmt::format("model_type \"{}\" is not a known encoder", config.family));
  HfConfigReader reader(folder.config);
  family->read(reader, config);
  if (is_classifier(folder.config)) {
    config.kind = ModelKind::kClassifier;
    const Json* labels = reader.find("id2label");
    if (labels != nullptr && labels->is_object()) config.head.num_labels = static_cast<int32_t>(labels->size());
  }
  QUERN_TRY(reader.status());
  QUERN_TRY(read_sentence_files(folder, config.pooling, config.normalize));
  return config;
}

Result<EncoderConfig> read_gguf(const GgufFile& file) {
  GgufConfigReader reader(file.metadata(), gguf_architecture(file.metadata()), &file);
  EncoderConfig config;
  read_gguf_encoder(reader, config);
  QUERN_TRY(reader.status());
  const TensorView* table = file.find("token_embd.weight");
  if (table == nullptr) return invalid_file("tensor token_embd.weight is missing");
  if (table->shape.size() != 2 || table->shape[0] < 1 || table->shape[0] > kVocabMax) {
    return invalid_file(fmt::format("tensor token_embd.weight has shape {}", shape_string(table->shape)));
  }
  config.vocab_size = static_cast<int32_t>(table->shape[0]);
  if (!reader.has_tensor("token_types.weight")) config.num_types = 0;  // DistilBERT comes without
  return config;
}

}  // namespace

Status check_encoder_config(const EncoderConfig& config) {
  if (config.hidden_size % config.num_heads != 0) {
    return invalid_file(fmt::format("num_attention_heads is {}, which does not divide hidden_size {}", config.num_heads,
                                    config.hidden_size));
  }
  if (config.tokens_max < 1) {
    return invalid_file(fmt::format("max_position_embeddings is {}, which leaves no position after the first {}",
                                    config.learned_positions, config.position_offset));
  }
  for (const RopeConfig& rope : config.ropes) {
    if (rope.rotary_dim < 2 || rope.rotary_dim % 2 != 0 || rope.rotary_dim > config.head_dim()) {
      return invalid_file(fmt::format("rotary dimension is {}, must be even and at most the head's {}", rope.rotary_dim,
                                      config.head_dim()));
    }
  }
  return {};
}

bool is_encoder_source(const ModelSource& source) {
  if (source.gguf) return is_encoder_architecture(gguf_architecture(source.gguf->metadata()));
  return source.folder && find_encoder_family(string_of(source.folder->config, "model_type")) != nullptr;
}

Result<EncoderConfig> read_encoder_config(const ModelSource& source) {
  auto config = source.gguf     ? read_gguf(*source.gguf)
                : source.folder ? read_hf(*source.folder)
                                : Result<EncoderConfig>(not_found("the model has no configuration"));
  if (!config) return std::unexpected(std::move(config).error());
  QUERN_TRY(check_encoder_config(*config));
  return config;
}

ModelConfig to_model_config(const EncoderConfig& config) {
  ModelConfig result;
  result.family = config.family;
  result.kind = config.kind;
  result.vocab_size = config.vocab_size;
  result.hidden_size = config.hidden_size;
  result.num_layers = config.num_layers;
  result.context_length = config.tokens_max;
  return result;
}

}  // namespace quern
