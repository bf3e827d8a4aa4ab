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

bool EngineCore::reading_pays(const Restore& plan) const {
  const double compute = pace_.token_seconds() * kKvBlockSize * plan.saved_blocks;
  if (compute == 0 || disk_read_seconds_ == 0) return true;  // nothing measured: find out
  return disk_read_seconds_ * plan.read_blocks <= compute * options_.disk_patience;
}

// The longest prefix that memory and disk hold together, as far as `room` blocks allow, if it is longer than memory's.
EngineCore::Restore EngineCore::plan_restore(Sequence& sequence, int32_t in_memory_blocks, int64_t room) {
  const std::span<const int32_t> tokens = sequence.tokens;
  GroupedBlocks& blocks = sequence.blocks;
  const auto tokens_of = [&](int32_t i) { return tokens.subspan(static_cast<size_t>(i) * kKvBlockSize, kKvBlockSize); };
  const auto in_memory = [&](int32_t g, int32_t i) { return pool_->peek(blocks.key(tokens, g, i), tokens_of(i)); };
  const auto is_somewhere = [&](int32_t g, int32_t i) {
    return in_memory(g, i) || options_.disk->contains(blocks.key(tokens, g, i), tokens_of(i));
  };
  int32_t limit = blocks.prefix_blocks_max(tokens);
  while (true) {
    Restore plan{.length = blocks.longest_prefix(limit, is_somewhere)};
    if (plan.length <= in_memory_blocks) return {};
    plan.saved_blocks = plan.length - in_memory_blocks;
    int32_t cached = 0;  // which are held meanwhile, so that making room does not evict them
    blocks.for_each_needed(plan.length, [&](int32_t g, int32_t i) {
      const auto block = in_memory(g, i);
      plan.read_blocks += !block;
      cached += block && pool_->references(*block) == 0;
    });
    const int64_t excess = std::max<int64_t>(plan.read_blocks - kRestoredMax, plan.read_blocks + cached - room);
    if (excess <= 0) return plan;
    limit = plan.length - static_cast<int32_t>((excess + groups_.count() - 1) / groups_.count());
  }
}

void EngineCore::read_blocks(Sequence& sequence, const Restore& plan, std::vector<BlockId>& held) {
  const std::span<const int32_t> tokens = sequence.tokens;
  const auto tokens_of = [&](int32_t i) { return tokens.subspan(static_cast<size_t>(i) * kKvBlockSize, kKvBlockSize); };
  sequence.blocks.for_each_needed(plan.length, [&](int32_t g, int32_t i) {
    if (const auto block = pool_->try_find(sequence.blocks.key(tokens, g, i), tokens_of(i))) held.push_back(*block);
  });
  restore_buffer_.resize(disk_buffer_.size());
  bool reading = true;
  sequence.blocks.for_each_needed(plan.length, [&](int32_t g, int32_t i) {
    const PrefixKey& key = sequence.blocks.key(tokens, g, i);
    if (!reading || pool_->peek(key, tokens_of(i))) return;
    // Read before a block is taken: taking one may write to the same file.
    const auto start = EngineClock::now();
    reading = reading_pays(plan) && options_.disk->get(key, tokens_of(i), restore_buffer_);
    if (!reading) return;
    const auto block = pool_->try_acquire();
    QUERN_CHECK(block.has_value());
    runner_.kv_blocks()->write_block(*block, restore_buffer_);
    pool_->publish(*block, key, tokens_of(i));
    held.push_back(*block);
    blend(disk_read_seconds_, std::chrono::duration<double>(EngineClock::now() - start).count());
  });
}

// Restored blocks become cached ones, as if a request had just ended: the plan then finds them like any others. `room`:
// blocks that nobody before it wants. Where they do not hold the whole sequence it will not be admitted yet, and what
// came back would be gone until it is. true: `match`, what memory has, may have grown.
bool EngineCore::restore(Sequence& sequence, const GroupedBlocks::PrefixMatch& match, int64_t room) {
  if (options_.disk == nullptr || sequence.disk_checked) return false;
  const bool is_next = running_.empty() && waiting_view_.empty();
  const int64_t wanted = match.cached_blocks +
                         wanted_blocks({.computed = match.tokens, .target = sequence.target(), .blocks = match.blocks});
  if (!is_next && room < wanted) return false;
  sequence.disk_checked = true;
  const Restore plan = plan_restore(sequence, match.blocks, room);
  if (plan.read_blocks == 0 || !reading_pays(plan)) return false;
  std::vector<BlockId> held;
  read_blocks(sequence, plan, held);
  const int32_t after = sequence.blocks.match_prefix(sequence.tokens).tokens;
  totals_.disk_hits_total += static_cast<uint64_t>(after - match.tokens);
  for (auto block = held.rbegin(); block != held.rend(); ++block) pool_->release(*block);
  return true;
}

}  // namespace quern
