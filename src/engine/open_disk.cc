#include "engine/open_disk.h"

#include "base/status.h"

namespace quern {

namespace {

// All but keys and tokens that decides a block's bytes, as text: a file of anything else is not used.
std::string identity_of(Runner& runner) {
  const ModelConfig& config = runner.config();
  std::string text = fmt::format("{} {} {} {} {}", config.family, config.num_layers, config.hidden_size,
                                 config.vocab_size, static_cast<int>(runner.options().precision));
  const KvLayout& layout = runner.kv_layout();
  for (const KvLayerSpec& layer : layout.layers) {
    text += fmt::format(" {}x{}+{}:{}:{}", layer.num_kv_heads, layer.key_dim, layer.value_dim,
                        static_cast<int>(layer.key_dtype), static_cast<int>(layer.value_dtype));
  }
  if (layout.num_groups() > 1) {
    for (const KvPlace& place : layout.places) {
      text += fmt::format(" {}.{}/{}", place.group, place.index, layout.windows[static_cast<size_t>(place.group)]);
    }
  }
  // The device's name ends with its threads, which change no bit.
  text += runner.device().name().substr(0, runner.device().name().find(','));
  if (runner.source() == nullptr) return text;
  std::error_code error;
  const auto& path = runner.source()->path;
  text += std::filesystem::weakly_canonical(path, error).string();
  const auto add_file = [&](const std::filesystem::path& file) {
    text += fmt::format(" {} {}", std::filesystem::file_size(file, error),
                        std::filesystem::last_write_time(file, error).time_since_epoch().count());
  };
  if (!std::filesystem::is_directory(path, error)) {
    add_file(path);
  } else {
    for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
      if (entry.path().extension() == ".safetensors") add_file(entry.path());
    }
  }
  return text;
}

}  // namespace

Result<std::unique_ptr<DiskTier>> open_disk(const EngineOptions& options, Runner& runner) {
  if (options.kv_disk_path.empty()) return nullptr;
  if (!options.enable_prefix_caching) return invalid_argument("kv_disk_path: only with prefix caching");
  KvBlockAccess* access = runner.kv_blocks();
  if (access == nullptr) return unsupported("kv_disk_path: this device gives no access to its blocks");
  DiskTier::Options tier{.path = options.kv_disk_path,
                         .bytes_max = options.kv_disk_bytes,
                         .fingerprint = mix_salt({}, 0, identity_of(runner)),
                         .block_bytes = access->block_bytes(),
                         .block_tokens = kKvBlockSize};
  std::error_code error;
  if (std::filesystem::is_directory(tier.path, error)) tier.path /= fmt::format("{:016x}.quern-kv", tier.fingerprint);
  QUERN_ASSIGN(auto disk, DiskTier::open(tier));
  if (options.on_note && !disk->note().empty()) options.on_note(disk->note());
  return disk;
}

}  // namespace quern
