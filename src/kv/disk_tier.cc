#include "kv/disk_tier.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>

#include "base/check.h"
#include "base/status.h"

namespace quern {

namespace {

constexpr size_t kPage = 4096;
constexpr uint64_t kMagic = 0x31564b4e52455551;  // "QUERNKV1"

struct FileHeader {
  uint64_t magic = kMagic;
  uint64_t fingerprint = 0;
  uint64_t block_bytes = 0;
  uint64_t block_tokens = 0;
  PrefixKey root;
  uint64_t checksum = 0;  // of what stands before it
};
struct SlotHeader {
  PrefixKey key;
  uint64_t age = 0;
  uint64_t data_checksum = 0;
  uint64_t checksum = 0;  // of what stands before it, and of the tokens behind it
};

uint64_t checksum_of(const SlotHeader& header, std::span<const std::byte> tokens) {
  return XXH3_64bits_withSeed(tokens.data(), tokens.size(), XXH3_64bits(&header, offsetof(SlotHeader, checksum)));
}

bool read_all(int file, void* target, size_t bytes, int64_t offset) {
  auto* to = static_cast<char*>(target);
  while (bytes > 0) {
    const ssize_t count = pread(file, to, bytes, offset);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    to += count;
    offset += count;
    bytes -= static_cast<size_t>(count);
  }
  return true;
}

bool write_all(int file, const void* source, size_t bytes, int64_t offset) {
  const auto* from = static_cast<const char*>(source);
  while (bytes > 0) {
    const ssize_t count = pwrite(file, from, bytes, offset);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    from += count;
    offset += count;
    bytes -= static_cast<size_t>(count);
  }
  return true;
}

uint64_t random_word() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

}  // namespace

Result<std::unique_ptr<DiskTier>> DiskTier::open(const Options& options) {
  QUERN_CHECK(options.block_bytes > 0 && options.block_tokens > 0);
  std::unique_ptr<DiskTier> tier(new DiskTier(options));
  QUERN_TRY(tier->start());
  return tier;
}

DiskTier::~DiskTier() {
  if (file_ >= 0) close(file_);
}

size_t DiskTier::head_bytes() const {
  return sizeof(SlotHeader) + static_cast<size_t>(options_.block_tokens) * sizeof(int32_t);
}

int64_t DiskTier::offset_of(size_t slot) const {
  return static_cast<int64_t>(kPage + slot * buffer_.size());
}

Status DiskTier::start() {
  buffer_.resize((head_bytes() + options_.block_bytes + kPage - 1) / kPage * kPage);
  const int64_t count = (options_.bytes_max - static_cast<int64_t>(kPage)) / static_cast<int64_t>(buffer_.size());
  if (count < 1) {
    return invalid_argument(
        fmt::format("kv_disk_bytes: {} bytes do not hold one block of {}", options_.bytes_max, buffer_.size()));
  }
  const std::string path = options_.path.string();
  file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file_ < 0) return make_error(ErrorCode::kIo, fmt::format("kv_disk_path: {}: {}", path, std::strerror(errno)));
  if (flock(file_, LOCK_EX | LOCK_NB) != 0) {
    return make_error(ErrorCode::kUnavailable, fmt::format("kv_disk_path: {}: another process uses it", path));
  }
  slots_.resize(static_cast<size_t>(count));
  if (read_header()) {
    read_slots();
    return {};
  }
  struct stat status = {};
  if (fstat(file_, &status) == 0 && status.st_size > 0) {
    note_ = fmt::format("{}: not of this model and these settings, or damaged: started anew", path);
  }
  root_ = {.low = random_word(), .high = random_word()};
  return write_header();
}

bool DiskTier::read_header() {
  FileHeader header;
  if (!read_all(file_, &header, sizeof(header), 0)) return false;
  const bool fits = header.magic == kMagic && header.fingerprint == options_.fingerprint &&
                    header.block_bytes == options_.block_bytes &&
                    header.block_tokens == static_cast<uint64_t>(options_.block_tokens);
  root_ = header.root;
  return fits && header.checksum == XXH3_64bits(&header, offsetof(FileHeader, checksum));
}

Status DiskTier::write_header() {
  FileHeader header;
  header.fingerprint = options_.fingerprint;
  header.block_bytes = options_.block_bytes;
  header.block_tokens = static_cast<uint64_t>(options_.block_tokens);
  header.root = root_;
  header.checksum = XXH3_64bits(&header, offsetof(FileHeader, checksum));
  if (ftruncate(file_, 0) != 0 || !write_all(file_, &header, sizeof(header), 0)) {
    return make_error(ErrorCode::kIo,
                      fmt::format("kv_disk_path: {}: {}", options_.path.string(), std::strerror(errno)));
  }
  return {};
}

// What an earlier process left. A slot whose head does not add up is empty.
void DiskTier::read_slots() {
  struct stat status = {};
  if (fstat(file_, &status) != 0) return;
  const auto stored = static_cast<size_t>(std::max<int64_t>(0, status.st_size - int64_t{kPage})) / buffer_.size();
  // A smaller bound than last time: what lies beyond is cut off.
  if (stored > slots_.size() && ftruncate(file_, offset_of(slots_.size())) != 0) return;
  std::vector<std::byte> head(head_bytes());
  for (size_t i = 0; i < std::min(stored, slots_.size()); ++i) {
    next_empty_ = i + 1;
    SlotHeader header;
    if (!read_all(file_, head.data(), head.size(), offset_of(i))) return;
    std::memcpy(&header, head.data(), sizeof(header));
    const auto tokens = std::span(head).subspan(sizeof(header));
    if (header.checksum != checksum_of(header, tokens) || index_.contains(header.key)) continue;
    Slot& slot = slots_[i];
    slot = {.used = true, .key = header.key, .tokens = {}, .age = header.age, .checksum = header.data_checksum};
    slot.tokens.resize(static_cast<size_t>(options_.block_tokens));
    std::memcpy(slot.tokens.data(), tokens.data(), tokens.size());
    index_[slot.key] = i;
    age_ = std::max(age_, slot.age);
  }
}

bool DiskTier::contains(const PrefixKey& key, std::span<const int32_t> tokens) const {
  const auto found = index_.find(key);
  return found != index_.end() && std::ranges::equal(slots_[found->second].tokens, tokens);
}

void DiskTier::forget(size_t slot) {
  index_.erase(slots_[slot].key);
  slots_[slot].used = false;
}

size_t DiskTier::slot_for_write() {
  if (next_empty_ < slots_.size()) return next_empty_++;
  size_t oldest = 0;
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (!slots_[i].used) return i;
    if (slots_[i].age < slots_[oldest].age) oldest = i;
  }
  forget(oldest);
  return oldest;
}

void DiskTier::put(const PrefixKey& key, std::span<const int32_t> tokens, std::span<const std::byte> bytes) {
  QUERN_CHECK(bytes.size() == options_.block_bytes && tokens.size() == static_cast<size_t>(options_.block_tokens));
  if (const auto found = index_.find(key); found != index_.end()) {
    slots_[found->second].age = ++age_;
    return;
  }
  const size_t place = slot_for_write();
  SlotHeader header;
  header.key = key;
  header.age = ++age_;
  header.data_checksum = XXH3_64bits(bytes.data(), bytes.size());
  header.checksum = checksum_of(header, std::as_bytes(tokens));
  std::memcpy(buffer_.data(), &header, sizeof(header));
  std::memcpy(buffer_.data() + sizeof(header), tokens.data(), tokens.size_bytes());
  std::memcpy(buffer_.data() + head_bytes(), bytes.data(), bytes.size());
  std::fill(buffer_.begin() + static_cast<ptrdiff_t>(head_bytes() + bytes.size()), buffer_.end(), std::byte{0});
  if (!write_all(file_, buffer_.data(), buffer_.size(), offset_of(place))) return;
  slots_[place] = {.used = true,
                   .key = key,
                   .tokens = std::vector<int32_t>(tokens.begin(), tokens.end()),
                   .age = header.age,
                   .checksum = header.data_checksum};
  index_[key] = place;
}

bool DiskTier::get(const PrefixKey& key, std::span<const int32_t> tokens, std::span<std::byte> bytes) {
  QUERN_CHECK(bytes.size() == options_.block_bytes);
  if (!contains(key, tokens)) return false;
  const size_t place = index_.at(key);
  Slot& slot = slots_[place];
  const bool is_read =
      read_all(file_, bytes.data(), bytes.size(), offset_of(place) + static_cast<int64_t>(head_bytes()));
  if (!is_read || XXH3_64bits(bytes.data(), bytes.size()) != slot.checksum) {
    forget(place);
    return false;
  }
  slot.age = ++age_;
  return true;
}

}  // namespace quern
