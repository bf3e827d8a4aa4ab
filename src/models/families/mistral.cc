// Mistral 7B (arXiv 2310.06825): llama with a sliding window on every layer. In GGUF it is called llama.
#include "models/families/families.h"
#include "models/hf_config.h"

namespace quern {
namespace {

void read_hf(HfConfigReader& reader, ModelConfig& config) {
  read_hf_common(reader, config, {});
  const int32_t window = read_hf_window(reader, 4096);
  read_hf_windows(reader, config, window, [](int32_t) { return true; });
}

}  // namespace

const Family kMistralFamily = {
    .name = "mistral",
    .hf_types = {"mistral"},
    .read_hf = read_hf,
};

}  // namespace quern
