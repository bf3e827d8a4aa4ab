// The second tier of the KV cache: blocks that left memory, in one bounded file, found again by their prefix key, also
// by a later process. Nothing in the file is trusted: whatever is damaged counts as absent.
//
//   [ header 4096: magic, version, what the blocks belong to, root of all keys, checksum ]
//   [ slot 0: key, tokens, age, checksums | bytes of the block ] [ slot 1 ] …
//
// One owner thread; one process per file (it is locked).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "kv/block_pool.h"
#include "quern/status.h"

namespace quern {

class DiskTier {
 public:
  struct Options {
    std::filesystem::path path;  // a file, made if it is not there
    int64_t bytes_max = 0;
    uint64_t fingerprint = 0;  // of everything but keys and tokens that decides the bytes: model, types, device
    size_t block_bytes = 0;
    int32_t block_tokens = 0;
  };
  // A file of something else or a damaged one is started anew; note() says so. Errors: kInvalidArgument for a bound
  // that holds no block, kIo, kUnavailable when another process has the file.
  static Result<std::unique_ptr<DiskTier>> open(const Options& options);
  ~DiskTier();

  const std::string& note() const { return note_; }  // what open() found wrong, one line, or empty
  const PrefixKey& root() const { return root_; }    // parent of every chain in this file

  bool contains(const PrefixKey& key, std::span<const int32_t> tokens) const;
  // Over the bound the block that was used longest ago goes. A write that fails loses the block, nothing else.
  void put(const PrefixKey& key, std::span<const int32_t> tokens, std::span<const std::byte> bytes);
  // false: not there, or damaged, and then forgotten.
  bool get(const PrefixKey& key, std::span<const int32_t> tokens, std::span<std::byte> bytes);

  int32_t num_slots() const { return static_cast<int32_t>(slots_.size()); }
  int32_t num_used() const { return static_cast<int32_t>(index_.size()); }

 private:
  struct Slot {
    bool used = false;
    PrefixKey key;
    std::vector<int32_t> tokens;
    uint64_t age = 0;  // larger: used later
    uint64_t checksum = 0;
  };
  struct KeyHash {
    size_t operator()(const PrefixKey& key) const { return key.low; }
  };
  explicit DiskTier(const Options& options) : options_(options) {}
  Status start();
  bool read_header();
  Status write_header();
  void read_slots();
  size_t head_bytes() const;
  int64_t offset_of(size_t slot) const;
  size_t slot_for_write();
  void forget(size_t slot);

  Options options_;
  int file_ = -1;
  std::string note_;
  PrefixKey root_;
  std::vector<Slot> slots_;
  std::unordered_map<PrefixKey, size_t, KeyHash> index_;
  size_t next_empty_ = 0;  // slots before it are in use, or were
  uint64_t age_ = 0;
  std::vector<std::byte> buffer_;  // one slot
};

}  // namespace quern
