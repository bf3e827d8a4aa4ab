#include "kv/block_pool.h"

#define XXH_STATIC_LINKING_ONLY  // for a state on the stack
#include <xxhash.h>

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/status.h"

namespace quern {
namespace {

constexpr int32_t kNone = -1;

// Free and cached blocks stand in two circular lists, each with a sentinel node behind the blocks; live blocks are in
// none. A published block is also in the chain of its hash bucket.
class BlockPoolImpl final : public BlockPool {
 public:
  BlockPoolImpl(int32_t num_blocks, const PrefixKey& root)
      : num_blocks_(num_blocks),
        root_(root),
        free_list_(num_blocks),
        cached_list_(num_blocks + 1),
        nodes_(static_cast<size_t>(num_blocks) + 2),
        buckets_(std::bit_ceil(static_cast<size_t>(num_blocks)) * 2, kNone) {
    for (int32_t list : {free_list_, cached_list_}) node(list).previous = node(list).next = list;
    for (int32_t block = 0; block < num_blocks_; ++block) push_back(free_list_, block);
    num_free_ = num_blocks_;
  }

  std::optional<BlockId> try_acquire() override {
    BlockId block = node(free_list_).next;
    if (block != free_list_) {
      --num_free_;
    } else {
      block = node(cached_list_).next;
      if (block == cached_list_) return std::nullopt;
      --num_cached_;
      if (on_evict_) on_evict_(block, node(block).key, node(block).tokens);
      remove_from_index(block);
    }
    unlink(block);
    node(block).references = 1;
    return block;
  }

  void add_reference(BlockId block) override {
    check_block(block);
    QUERN_CHECK(node(block).references > 0);
    ++node(block).references;
  }

  void release(BlockId block) override {
    check_block(block);
    QUERN_CHECK(node(block).references > 0);
    if (--node(block).references > 0) return;
    if (node(block).published) {
      push_back(cached_list_, block);
      ++num_cached_;
    } else {
      push_back(free_list_, block);
      ++num_free_;
    }
  }

  int32_t references(BlockId block) const override {
    check_block(block);
    return node(block).references;
  }

  void publish(BlockId block, const PrefixKey& key, std::span<const int32_t> tokens) override {
    check_block(block);
    Node& entry = node(block);
    QUERN_CHECK(entry.references > 0 && !tokens.empty());
    if (find_key(key) != kNone) return;
    QUERN_CHECK(!entry.published);
    entry.key = key;
    entry.tokens.assign(tokens.begin(), tokens.end());
    entry.published = true;
    int32_t& head = buckets_[bucket_of(key)];
    entry.chain_next = head;
    head = block;
  }

  std::optional<BlockId> try_find(const PrefixKey& key, std::span<const int32_t> tokens) override {
    const std::optional<BlockId> block = peek(key, tokens);
    if (!block) return std::nullopt;
    if (node(*block).references++ == 0) {
      unlink(*block);
      --num_cached_;
    }
    return block;
  }

  std::optional<BlockId> peek(const PrefixKey& key, std::span<const int32_t> tokens) const override {
    const int32_t block = find_key(key);
    if (block == kNone || !std::ranges::equal(node(block).tokens, tokens)) return std::nullopt;
    return block;
  }

  void on_evict(Observer observer) override { on_evict_ = std::move(observer); }
  void for_each_published(const Observer& observer) const override {
    for (int32_t block = 0; block < num_blocks_; ++block) {
      if (node(block).published) observer(block, node(block).key, node(block).tokens);
    }
  }

  const PrefixKey& root() const override { return root_; }
  int32_t num_blocks() const override { return num_blocks_; }
  int32_t num_free() const override { return num_free_; }
  int32_t num_live() const override { return num_blocks_ - num_free_ - num_cached_; }
  int32_t num_cached() const override { return num_cached_; }

  void check_identity() const override {
    QUERN_CHECK(check_list(free_list_, /*published=*/false) == num_free_);
    QUERN_CHECK(check_list(cached_list_, /*published=*/true) == num_cached_);
    int32_t live = 0;
    int32_t published = 0;
    for (int32_t block = 0; block < num_blocks_; ++block) {
      const Node& entry = node(block);
      QUERN_CHECK(entry.references >= 0);
      QUERN_CHECK((entry.references > 0) == (entry.next == kNone));
      live += entry.references > 0;
      published += entry.published;
    }
    QUERN_CHECK(num_free_ + live + num_cached_ == num_blocks_);
    QUERN_CHECK(check_index() == published);
  }

 private:
  struct Node {
    int32_t previous = kNone;
    int32_t next = kNone;        // kNone: live
    int32_t chain_next = kNone;  // next of the same hash bucket
    int32_t references = 0;
    bool published = false;
    PrefixKey key;
    std::vector<int32_t> tokens;  // keeps its memory from one use of the block to the next
  };

  Node& node(int32_t i) { return nodes_[static_cast<size_t>(i)]; }
  const Node& node(int32_t i) const { return nodes_[static_cast<size_t>(i)]; }
  void check_block(BlockId block) const { QUERN_CHECK(block >= 0 && block < num_blocks_); }
  size_t bucket_of(const PrefixKey& key) const { return key.low & (buckets_.size() - 1); }

  int32_t find_key(const PrefixKey& key) const {
    int32_t block = buckets_[bucket_of(key)];
    while (block != kNone && node(block).key != key) block = node(block).chain_next;
    return block;
  }

  void remove_from_index(BlockId block) {
    int32_t* link = &buckets_[bucket_of(node(block).key)];
    while (*link != block) link = &node(*link).chain_next;
    *link = node(block).chain_next;
    node(block).chain_next = kNone;
    node(block).published = false;
  }

  void push_back(int32_t list, BlockId block) {
    const int32_t last = node(list).previous;
    node(block).previous = last;
    node(block).next = list;
    node(last).next = block;
    node(list).previous = block;
  }

  void unlink(BlockId block) {
    Node& entry = node(block);
    node(entry.previous).next = entry.next;
    node(entry.next).previous = entry.previous;
    entry.previous = entry.next = kNone;
  }

  int32_t check_list(int32_t list, bool published) const {
    int32_t length = 0;
    for (int32_t i = node(list).next; i != list; i = node(i).next) {
      check_block(i);
      QUERN_CHECK(node(i).references == 0 && node(i).published == published);
      QUERN_CHECK(node(node(i).next).previous == i);
      QUERN_CHECK(++length <= num_blocks_);
    }
    return length;
  }

  int32_t check_index() const {
    int32_t length = 0;
    for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
      for (int32_t i = buckets_[bucket]; i != kNone; i = node(i).chain_next) {
        check_block(i);
        QUERN_CHECK(node(i).published && bucket_of(node(i).key) == bucket && find_key(node(i).key) == i);
        QUERN_CHECK(++length <= num_blocks_);
      }
    }
    return length;
  }

  const int32_t num_blocks_;
  const PrefixKey root_;
  Observer on_evict_;
  const int32_t free_list_;    // sentinel nodes
  const int32_t cached_list_;  // least recently released first
  int32_t num_free_ = 0;
  int32_t num_cached_ = 0;
  std::vector<Node> nodes_;
  std::vector<int32_t> buckets_;  // a power of two of them
};

}  // namespace

PrefixKey prefix_key(const PrefixKey& parent, std::span<const int32_t> tokens, uint64_t salt) {
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  const uint64_t head[3] = {parent.low, parent.high, salt};
  XXH3_128bits_update(&state, head, sizeof(head));
  XXH3_128bits_update(&state, tokens.data(), tokens.size_bytes());
  const XXH128_hash_t hash = XXH3_128bits_digest(&state);
  return {.low = hash.low64, .high = hash.high64};
}

uint64_t mix_salt(const PrefixKey& root, uint64_t salt, std::string_view text) {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  const uint64_t head[3] = {root.low, root.high, salt};
  XXH3_64bits_update(&state, head, sizeof(head));
  XXH3_64bits_update(&state, text.data(), text.size());
  return XXH3_64bits_digest(&state);
}

uint64_t group_salt(const PrefixKey& root, uint64_t salt, int32_t group) {
  if (group == 0) return salt;
  // Seeded, so that no text given to mix_salt() leads to the same salt.
  const uint64_t head[3] = {root.low, root.high, salt};
  return XXH3_64bits_withSeed(head, sizeof(head), static_cast<uint64_t>(group));
}

Result<std::unique_ptr<BlockPool>> BlockPool::create(int32_t num_blocks, const PrefixKey& root) {
  constexpr int32_t kBlocksMax = 1 << 28;
  if (num_blocks < 1 || num_blocks > kBlocksMax) {
    return invalid_argument(fmt::format("KV blocks: {} is outside [1, {}]", num_blocks, kBlocksMax));
  }
  return std::make_unique<BlockPoolImpl>(num_blocks, root);
}

}  // namespace quern
