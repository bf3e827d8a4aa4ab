#include "model_run.h"

#include <algorithm>
#include <array>

#include "kernels/ref/reference_device.h"
#include "models/encoders/encoder_config.h"
#include "targets.h"

namespace quern::fuzz {
namespace {

constexpr int32_t kTokens = 3;

// First and last id of the vocabulary and one between: rows at both ends of the tables.
std::array<int32_t, kTokens> some_ids(const ModelConfig& config) {
  return {0, config.vocab_size - 1, config.vocab_size / 2};
}

void run_decoder(const ModelSource& source) {
  ReferenceDevice device;
  auto model = load_decoder(source, device, Precision::kExact);
  if (!model) return check_refusal(model.error());
  const ModelConfig& config = (*model)->config();
  int32_t tokens = std::min(kTokens, config.context_length);
  if (config.learned_positions > 0) tokens = std::min(tokens, config.learned_positions);
  const auto size = static_cast<size_t>(tokens);
  if (auto status = (*model)->reserve(tokens, tokens); !status) return check_refusal(status.error());
  const auto layers = (*model)->kv_layers(KvDType::kF32, KvDType::kF16);
  auto kv = device.allocate_kv(layers, 1);
  if (!kv) return check_refusal(kv.error());

  const auto ids = some_ids(config);
  const std::array<int32_t, kTokens> rows = {0, 1, 2};  // also the slots of the only block
  const std::array<int32_t, 1> blocks = {0};
  const BatchSequence sequence{.span = {.query_begin = 0, .query_count = tokens, .context_begin = 0, .blocks = blocks},
                               .prompt_tokens = tokens};
  const Batch batch{.ids = std::span(ids).first(size),
                    .slots = std::span(rows).first(size),
                    .sequences = std::span(&sequence, 1),
                    .logits_rows = std::span(rows).first(size)};
  std::vector<float> logits(size * static_cast<size_t>(config.vocab_size));
  if (auto status = (*model)->forward(batch, **kv, logits, nullptr); !status) check_refusal(status.error());
}

void run_encoder(const ModelSource& source) {
  ReferenceDevice device;
  auto model = load_encoder(source, device, Precision::kExact);
  if (!model) return check_refusal(model.error());
  const auto ids = some_ids((*model)->config());
  const EncoderInput input{.ids = ids, .type_ids = {}};
  if (auto output = (*model)->forward(std::span(&input, 1), true); !output) check_refusal(output.error());
}

}  // namespace

void run_model(const ModelSource& source) {
  auto config = read_model_config(source);
  if (!config) return check_refusal(config.error());
  if (config->kind == ModelKind::kDecoder) {
    run_decoder(source);
  } else {
    run_encoder(source);
  }
}

}  // namespace quern::fuzz
