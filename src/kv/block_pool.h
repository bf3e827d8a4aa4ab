// Who owns which KV blocks. Accounting only: the bytes live in the device's KvStorage.
//
//   free ──acquire──▶ live (references ≥ 1) ──release──▶ cached (in the prefix index, references 0) or free
//                       ▲───────────────── hit ──────────────┘        cached ──evicted (oldest first)──▶ free
//
// Identity: num_free + num_live + num_cached == num_blocks, checked by check_identity() when idle and after each
// simulated step. One owner thread (the engine's).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "quern/status.h"

namespace quern {

using BlockId = int32_t;

// What makes two blocks of tokens the same: parent block's key, the tokens, and everything else that changes keys and
// values.
struct PrefixKey {
  uint64_t low = 0;
  uint64_t high = 0;
  bool operator==(const PrefixKey&) const = default;
};
// Chained 128-bit hash (XXH3). `salt` covers adapter identity and scale, cache salt, media digest, rope regime. XXH3 is
// no cryptographic hash: where strangers share a pool, the first parent of every chain is a secret (BlockPool::root()).
PrefixKey prefix_key(const PrefixKey& parent, std::span<const int32_t> tokens, uint64_t salt);
// A salt from another and a text that a client chose, keyed with `root`.
uint64_t mix_salt(const PrefixKey& root, uint64_t salt, std::string_view text);
// The salt of one group of layers: blocks of two groups hold different bytes for the same tokens. Group 0 keeps `salt`.
uint64_t group_salt(const PrefixKey& root, uint64_t salt, int32_t group);

class BlockPool {
 public:
  // `root`: the parent of every first block. A secret, drawn at start, keeps strangers from crafting collisions.
  static Result<std::unique_ptr<BlockPool>> create(int32_t num_blocks, const PrefixKey& root = {});
  virtual ~BlockPool() = default;

  // Takes a block with one reference, evicting the least recently used cached block when none is free.
  // nullopt: every block is live.
  virtual std::optional<BlockId> try_acquire() = 0;
  virtual void add_reference(BlockId block) = 0;
  // Gives back one reference. At zero the block becomes cached if it was published, else free.
  virtual void release(BlockId block) = 0;
  virtual int32_t references(BlockId block) const = 0;

  // Makes a full block findable. Called once per block, when all its positions are computed. If the key is already
  // there, the existing block stays the one that is found.
  virtual void publish(BlockId block, const PrefixKey& key, std::span<const int32_t> tokens) = 0;
  // The block with this key and exactly these tokens, with one more reference; nullopt when there is none.
  virtual std::optional<BlockId> try_find(const PrefixKey& key, std::span<const int32_t> tokens) = 0;
  // The same without taking a reference and without making the block more recently used: for planning.
  virtual std::optional<BlockId> peek(const PrefixKey& key, std::span<const int32_t> tokens) const = 0;

  // Told of a cached block before it is evicted, and, by for_each_published(), of every block that can be found.
  using Observer = std::function<void(BlockId block, const PrefixKey& key, std::span<const int32_t> tokens)>;
  virtual void on_evict(Observer observer) = 0;
  virtual void for_each_published(const Observer& observer) const = 0;

  virtual const PrefixKey& root() const = 0;
  virtual int32_t num_blocks() const = 0;
  virtual int32_t num_free() const = 0;
  virtual int32_t num_live() const = 0;
  virtual int32_t num_cached() const = 0;
  int32_t num_available() const { return num_free() + num_cached(); }
  virtual void check_identity() const = 0;  // aborts when the identity or an internal list is broken
};

}  // namespace quern
