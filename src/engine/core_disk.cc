// Blocks that go to the disk tier when they are evicted, and come back for who waits.
#include <algorithm>

#include "base/check.h"
#include "engine/core.h"

namespace quern {

namespace {
constexpr int32_t kRestoredMax = 512;  // blocks at once: the running streams wait meanwhile
}  // namespace

void EngineCore::attach_disk() {
  KvBlockAccess* access = runner_.kv_blocks();
  if (options_.disk == nullptr || access == nullptr) {
    options_.disk = nullptr;
    return;
  }
  disk_buffer_.resize(access->block_bytes());
  pool_->on_evict(
      [this](BlockId block, const PrefixKey& key, std::span<const int32_t> tokens) { save_block(block, key, tokens); });
}

void EngineCore::save_block(BlockId block, const PrefixKey& key, std::span<const int32_t> tokens) {
  if (options_.disk->contains(key, tokens)) return;
  runner_.kv_blocks()->read_block(block, disk_buffer_);
  options_.disk->put(key, tokens, disk_buffer_);
}

bool EngineCore::save_some(int32_t blocks_max) {
  if (options_.disk == nullptr) return false;
  // A tier smaller than what memory holds would only push out its own blocks.
  const int32_t room = options_.disk->num_slots();
  int32_t saved = 0, seen = 0;
  pool_->for_each_published([&](BlockId block, const PrefixKey& key, std::span<const int32_t> tokens) {
    if (++seen > room || saved > blocks_max || options_.disk->contains(key, tokens)) return;
    if (++saved <= blocks_max) save_block(block, key, tokens);
  });
  return saved > blocks_max;
}

bool EngineCore::reading_pays() const {
  const double compute = pace_.token_seconds() * kKvBlockSize;
  if (compute == 0 || disk_read_seconds_ == 0) return true;  // nothing measured: find out
  return disk_read_seconds_ <= compute * options_.disk_patience;
}

// Restored blocks become cached ones, as if a request had just ended: the plan then finds them like any others.
void EngineCore::restore(Sequence& sequence) {
  if (options_.disk == nullptr || sequence.disk_checked) return;
  sequence.disk_checked = true;
  const auto size = static_cast<size_t>(kKvBlockSize);
  const std::span<const int32_t> tokens = sequence.tokens;
  const size_t blocks_max = (tokens.size() - 1) / size;
  // Held meanwhile, so that making room does not evict the beginning of the same prompt.
  auto next = static_cast<size_t>(sequence.blocks.acquire_prefix(tokens)) / size;
  const int32_t room = pool_->num_available() - 2 * static_cast<int32_t>(running_.size());
  std::vector<BlockId> restored;
  while (next < blocks_max && static_cast<int32_t>(restored.size()) < std::min(room, kRestoredMax) && reading_pays()) {
    const PrefixKey key = sequence.blocks.key(tokens, next);
    const auto block_tokens = tokens.subspan(next * size, size);
    if (!options_.disk->contains(key, block_tokens)) break;
    // Read before a block is taken: taking one may write to the same file.
    const auto start = EngineClock::now();
    std::vector<std::byte>& bytes = restore_buffer_;
    bytes.resize(disk_buffer_.size());
    if (!options_.disk->get(key, block_tokens, bytes)) break;
    const auto block = pool_->try_acquire();
    QUERN_CHECK(block.has_value());
    runner_.kv_blocks()->write_block(*block, bytes);
    pool_->publish(*block, key, block_tokens);
    restored.push_back(*block);
    const double seconds = std::chrono::duration<double>(EngineClock::now() - start).count();
    blend(disk_read_seconds_, seconds);
    ++next;
  }
  totals_.disk_hits_total += restored.size() * size;
  for (auto block = restored.rbegin(); block != restored.rend(); ++block) pool_->release(*block);
  sequence.blocks.release();
}

}  // namespace quern
