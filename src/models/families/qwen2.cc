// Qwen 2 and 2.5 (arXiv 2407.10671): llama with biases on the query, key and value projections.
#include "models/families/families.h"
#include "models/gguf_config.h"
#include "models/hf_config.h"

namespace quern {
namespace {

void read_hf(HfConfigReader& reader, ModelConfig& config) {
  read_hf_common(reader, config, {});
  config.attention.qkv_bias = Presence::kRequired;
  if (!reader.bool_or({"use_sliding_window"}, false)) return;
  const int32_t window = read_hf_window(reader, 4096);
  const int32_t full_layers = reader.int_or({"max_window_layers"}, 28, {0, kPositionsMax});
  read_hf_windows(reader, config, window, [full_layers](int32_t layer) { return layer >= full_layers; });
}

void read_gguf(GgufConfigReader& reader, ModelConfig& config) {
  read_gguf_common(reader, config, {});
  config.attention.qkv_bias = Presence::kRequired;
}

}  // namespace

const Family kQwen2Family = {
    .name = "qwen2",
    .hf_types = {"qwen2"},
    .gguf_architectures = {"qwen2"},
    .read_hf = read_hf,
    .read_gguf = read_gguf,
};

}  // namespace quern
