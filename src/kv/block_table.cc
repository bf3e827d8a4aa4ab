#include "kv/block_table.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace quern {

SequenceBlocks::SequenceBlocks(BlockPool& pool, uint64_t salt, int32_t block_size)
    : pool_(&pool), salt_(salt), block_size_(block_size) {
  QUERN_CHECK(block_size > 0);
}

SequenceBlocks::~SequenceBlocks() {
  release();
}

SequenceBlocks::SequenceBlocks(SequenceBlocks&& other) noexcept
    : pool_(other.pool_),
      salt_(other.salt_),
      block_size_(other.block_size_),
      blocks_(std::exchange(other.blocks_, {})),
      keys_(std::exchange(other.keys_, {})),
      num_published_(std::exchange(other.num_published_, 0)),
      num_freed_(std::exchange(other.num_freed_, 0)) {}

SequenceBlocks& SequenceBlocks::operator=(SequenceBlocks&& other) noexcept {
  if (this == &other) return *this;
  release();
  pool_ = other.pool_;
  salt_ = other.salt_;
  block_size_ = other.block_size_;
  blocks_ = std::exchange(other.blocks_, {});
  keys_ = std::exchange(other.keys_, {});
  num_published_ = std::exchange(other.num_published_, 0);
  num_freed_ = std::exchange(other.num_freed_, 0);
  return *this;
}

int32_t SequenceBlocks::slot(int32_t position) const {
  const size_t index = static_cast<size_t>(position / block_size_);
  QUERN_CHECK(position >= 0 && index < blocks_.size() && blocks_[index] != kNoBlock);
  return blocks_[index] * block_size_ + position % block_size_;
}

const PrefixKey& SequenceBlocks::key(std::span<const int32_t> tokens, size_t block_idx) {
  const size_t size = static_cast<size_t>(block_size_);
  while (keys_.size() <= block_idx) {
    const PrefixKey parent = keys_.empty() ? pool_->root() : keys_.back();
    keys_.push_back(prefix_key(parent, tokens.subspan(keys_.size() * size, size), salt_));
  }
  return keys_[block_idx];
}

std::optional<BlockId> SequenceBlocks::peek(std::span<const int32_t> tokens, size_t block_idx) {
  const size_t size = static_cast<size_t>(block_size_);
  return pool_->peek(key(tokens, block_idx), tokens.subspan(block_idx * size, size));
}

void SequenceBlocks::take_prefix(std::span<const int32_t> tokens, int32_t first, int32_t count) {
  QUERN_CHECK(blocks_.empty() && first >= 0 && first <= count);
  const size_t size = static_cast<size_t>(block_size_);
  blocks_.assign(static_cast<size_t>(first), kNoBlock);
  for (size_t i = blocks_.size(); i < static_cast<size_t>(count); ++i) {
    const auto block = pool_->try_find(key(tokens, i), tokens.subspan(i * size, size));
    QUERN_CHECK(block.has_value());
    blocks_.push_back(*block);
  }
  num_published_ = count;
  num_freed_ = first;
}

bool SequenceBlocks::try_grow(int32_t num_tokens) {
  const int32_t wanted = num_tokens / block_size_ + (num_tokens % block_size_ != 0);
  const int32_t lacking = wanted - static_cast<int32_t>(blocks_.size());
  if (lacking > pool_->num_available()) return false;
  for (int32_t i = 0; i < lacking; ++i) blocks_.push_back(*pool_->try_acquire());
  return true;
}

void SequenceBlocks::publish(std::span<const int32_t> tokens, int32_t computed) {
  const int32_t full = computed / block_size_;
  QUERN_CHECK(static_cast<size_t>(computed) <= tokens.size() && static_cast<size_t>(full) <= blocks_.size());
  for (; num_published_ < full; ++num_published_) {
    const size_t i = static_cast<size_t>(num_published_);
    if (blocks_[i] == kNoBlock) continue;
    const size_t size = static_cast<size_t>(block_size_);
    pool_->publish(blocks_[i], key(tokens, i), tokens.subspan(i * size, size));
  }
}

SequenceBlocks SequenceBlocks::fork(int32_t computed) const {
  const size_t shared = static_cast<size_t>(computed / block_size_ + (computed % block_size_ != 0));
  QUERN_CHECK(computed >= 0 && shared <= blocks_.size());
  SequenceBlocks copy(*pool_, salt_, block_size_);
  copy.blocks_.assign(blocks_.begin(), blocks_.begin() + static_cast<ptrdiff_t>(shared));
  copy.keys_ = keys_;
  copy.num_published_ = std::min(num_published_, static_cast<int32_t>(shared));
  copy.num_freed_ = std::min(num_freed_, static_cast<int32_t>(shared));
  for (BlockId block : copy.blocks_) {
    if (block != kNoBlock) pool_->add_reference(block);
  }
  return copy;
}

bool SequenceBlocks::is_shared(int32_t position) const {
  const size_t index = static_cast<size_t>(position / block_size_);
  return index < blocks_.size() && blocks_[index] != kNoBlock && pool_->references(blocks_[index]) > 1;
}

Result<std::optional<SequenceBlocks::BlockCopy>> SequenceBlocks::copy_for_write(int32_t position) {
  if (!is_shared(position)) return std::nullopt;
  const std::optional<BlockId> target = pool_->try_acquire();
  if (!target) return make_error(ErrorCode::kResourceExhausted, "KV cache: no free block to copy a shared one into");
  BlockId& entry = blocks_[static_cast<size_t>(position / block_size_)];
  const BlockCopy copy{.source = entry, .target = *target};
  pool_->release(entry);
  entry = *target;
  return copy;
}

void SequenceBlocks::free_before(int32_t position) {
  const int32_t end = std::min(position / block_size_, static_cast<int32_t>(blocks_.size()));
  for (int32_t i = end - 1; i >= num_freed_; --i) {
    pool_->release(std::exchange(blocks_[static_cast<size_t>(i)], kNoBlock));
  }
  num_freed_ = std::max(num_freed_, end);
}

void SequenceBlocks::release() {
  while (!blocks_.empty()) release_last();
}

void SequenceBlocks::release_last() {
  if (blocks_.back() != kNoBlock) pool_->release(blocks_.back());
  blocks_.pop_back();
  const auto length = static_cast<int32_t>(blocks_.size());
  num_published_ = std::min(num_published_, length);
  num_freed_ = std::min(num_freed_, length);
}

int32_t SequenceBlocks::exclusive_blocks() const {
  return static_cast<int32_t>(std::ranges::count_if(
      blocks_, [this](BlockId block) { return block != kNoBlock && pool_->references(block) == 1; }));
}

}  // namespace quern
