#include "kernels/cpu/tiles.h"

#include <atomic>

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace quern::cpu {
namespace {

struct Features {
  bool int8_tiles = false;
  bool bf16_tiles = false;
  bool bf16_vectors = false;
};

Features ask() {
  Features features;
#if defined(__x86_64__) && defined(__linux__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 1, &a, &b, &c, &d) != 0) features.bf16_vectors = (a & 1u << 5) != 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return features;
  constexpr unsigned kBf16 = 1u << 22, kTile = 1u << 24, kInt8 = 1u << 25;
  if ((d & kTile) == 0) return features;
  // Linux keeps the 8 KiB of tile state off until a process asks (arch/x86/include/uapi/asm/prctl.h).
  constexpr long kRequestPermission = 0x1023;
  constexpr long kTileData = 18;
  if (::syscall(SYS_arch_prctl, kRequestPermission, kTileData) != 0) return features;
  features.int8_tiles = (d & kInt8) != 0;
  features.bf16_tiles = (d & kBf16) != 0;
#endif
  return features;
}

const Features& features() {
  static const Features asked = ask();
  return asked;
}

std::atomic<bool>& wanted_tiles() {
  static std::atomic<bool> wanted{true};
  return wanted;
}

}  // namespace

bool has_tiles() {
  return features().int8_tiles;
}

bool has_bf16_tiles() {
  return features().bf16_tiles;
}

bool has_bf16_vectors() {
  return features().bf16_vectors;
}

bool use_tiles() {
  return wanted_tiles().load(std::memory_order_relaxed) && has_tiles();
}

void set_use_tiles(bool wanted) {
  wanted_tiles().store(wanted, std::memory_order_relaxed);
}

}  // namespace quern::cpu
