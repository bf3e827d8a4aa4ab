// EXAONE 3 (arXiv 2408.03541): llama under other names. EXAONE 4 (arXiv 2507.11407): norms behind attention and
// feed-forward, norms of each query and key head; only layers with a window are rotated.
#include "base/json.h"
#include "base/status.h"
#include "models/families/families.h"
#include "models/gguf_config.h"
#include "models/hf_config.h"

namespace quern {
namespace {

void read_hf_3(HfConfigReader& reader, ModelConfig& config) {
  read_hf_common(reader, config, {.theta = 500000.0f, .epsilon = 1e-5f});
}

void read_gguf_3(GgufConfigReader& reader, ModelConfig& config) {
  read_gguf_common(reader, config, {});
}

void set_traits_4(ModelConfig& config) {
  config.block = BlockLayout::kPost;
  config.attention.qk_norm = QkNorm::kPerHead;
}

// Without any window (the 1.2B model) every layer is rotated.
void rotate_only_windows(ModelConfig& config, int32_t window) {
  if (window == 0) return;
  for (size_t i = 0; i < config.layer_rope.size(); ++i) config.layer_rope[i] = config.attention.window[i] > 0 ? 0 : -1;
}

void read_hf_4(HfConfigReader& reader, ModelConfig& config) {
  read_hf_common(reader, config, {.epsilon = 1e-5f});
  set_traits_4(config);
  const int32_t window = read_hf_window(reader, 4096);
  const Json* pattern = reader.find("sliding_window_pattern");
  if (pattern != nullptr && pattern->is_string()) {
    const std::string letters = pattern->get<std::string>();  // "LLLG", repeated: L has a window, G has not
    if (letters.empty() || letters.find_first_not_of("LG") != std::string::npos) {
      reader.fail(fmt::format("sliding_window_pattern \"{}\" is not made of L and G", letters));
      return;
    }
    read_hf_windows(reader, config, window,
                    [&](int32_t layer) { return letters[static_cast<size_t>(layer) % letters.size()] == 'L'; });
  } else {
    // 0 is how the official class writes down that no layer has a window.
    const int32_t every = reader.int_or({"sliding_window_pattern"}, 4, {window == 0 ? 0 : 1, kLayersMax});
    read_hf_windows(reader, config, window, [every](int32_t layer) { return every == 0 || (layer + 1) % every != 0; });
  }
  rotate_only_windows(config, window);
}

void read_gguf_4(GgufConfigReader& reader, ModelConfig& config) {
  read_gguf_common(reader, config, {});
  set_traits_4(config);
  const int32_t window = reader.int_or({"attention.sliding_window"}, 0, {0, kPositionsMax});
  read_gguf_windows(reader, config, [](int32_t layer) { return (layer + 1) % 4 != 0; });
  rotate_only_windows(config, window);
}

void hf_names_3(const ModelConfig&, TensorNames& names) {
  names.prefixes = {"transformer."};
  names.embed = "wte";
  names.final_norm = "ln_f";
  names.attention_norm = "h.{}.ln_1";
  names.mlp_norm = "h.{}.ln_2";
  names.query = "h.{}.attn.attention.q_proj";
  names.key = "h.{}.attn.attention.k_proj";
  names.value = "h.{}.attn.attention.v_proj";
  names.attention_output = "h.{}.attn.attention.out_proj";
  names.gate = "h.{}.mlp.c_fc_0";
  names.up = "h.{}.mlp.c_fc_1";
  names.down = "h.{}.mlp.c_proj";
  names.ignored = {"transformer.rotary.inv_freq", "*.attention.rotary.inv_freq"};
}

void hf_names_4(const ModelConfig&, TensorNames& names) {
  names.attention_post_norm = "layers.{}.post_attention_layernorm";
  names.mlp_post_norm = "layers.{}.post_feedforward_layernorm";
}

}  // namespace

const Family kExaoneFamily = {
    .name = "exaone",
    .hf_types = {"exaone"},
    .gguf_architectures = {"exaone"},
    .read_hf = read_hf_3,
    .read_gguf = read_gguf_3,
    .hf_names = hf_names_3,
};

const Family kExaone4Family = {
    .name = "exaone4",
    .hf_types = {"exaone4"},
    .gguf_architectures = {"exaone4"},
    .read_hf = read_hf_4,
    .read_gguf = read_gguf_4,
    .hf_names = hf_names_4,
};

}  // namespace quern
