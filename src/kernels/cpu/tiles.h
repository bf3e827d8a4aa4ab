// Matrix tiles of Intel AMX: who may use them, and the instructions that integer products need.
//
// A tile is a register of up to 16 rows of 64 bytes. tile_dot<C, A, B> adds to C [tokens, 16 int32] the products of
// A [tokens, k int8] and B [k / 4, 16 rows, 4 int8]: B is the order that packed panels have for every instruction set
// (pack_layout.h). Sums are exact, so tiles and the vector instructions agree on every bit.
#pragma once

#include <cstdint>
#include <cstring>

namespace quern::cpu {

// Whether the processor has int8 tiles and the operating system lets this process use them. Asked once.
bool has_tiles();

// Likewise bf16 tiles, and the vector instruction AVX512_BF16.
bool has_bf16_tiles();
bool has_bf16_vectors();

// Whether products use tiles: has_tiles() until told otherwise. Not while an operation runs.
bool use_tiles();
void set_use_tiles(bool wanted);

#if defined(__x86_64__)

// The compiler's own intrinsics do not say that these instructions read and write memory (GCC 12), so they are spelled
// out. The compiler itself never uses tiles.
template <int kTile>
inline void tile_zero() {
  asm volatile("tilezero %%tmm%c0" ::"i"(kTile));
}
template <int kTile>
inline void tile_load(const void* rows, int64_t stride) {
  asm volatile("tileloadd (%1,%2,1), %%tmm%c0" ::"i"(kTile), "r"(rows), "r"(stride) : "memory");
}
template <int kTile>
inline void tile_store(void* rows, int64_t stride) {
  asm volatile("tilestored %%tmm%c0, (%1,%2,1)" ::"i"(kTile), "r"(rows), "r"(stride) : "memory");
}
template <int kC, int kA, int kB>
inline void tile_dot() {
  asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kC), "i"(kA), "i"(kB));
}

// The same of bfloat16 pairs: A [tokens, k / 2 pairs], B [k / 2, 16 rows, 2], C float32.
template <int kC, int kA, int kB>
inline void tile_dot_bf16() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kC), "i"(kA), "i"(kB));
}

// The shapes of a thread's tiles: 0 … 3 are C, 4 and 5 A, 6 and 7 B. Tiles are given up with the object: a thread that
// keeps them makes every switch of threads dearer.
class TileShapes {
 public:
  TileShapes() = default;
  ~TileShapes() {
    if (tokens_ != 0) asm volatile("tilerelease");
  }
  TileShapes(const TileShapes&) = delete;
  TileShapes& operator=(const TileShapes&) = delete;

  // tokens <= 16, k <= 64. Costs nothing where the shapes stay the same.
  void set(int tokens, int k) {
    if (tokens == tokens_ && k == k_) return;
    tokens_ = tokens;
    k_ = k;
    alignas(64) uint8_t config[64] = {1};  // the palette
    for (int tile = 0; tile < 8; ++tile) {
      const auto row_bytes = static_cast<uint16_t>(tile == 4 || tile == 5 ? k : 64);
      std::memcpy(config + 16 + 2 * tile, &row_bytes, 2);
      config[48 + tile] = static_cast<uint8_t>(tile < 6 ? tokens : k / 4);
    }
    asm volatile("ldtilecfg %0" ::"m"(config));
  }

 private:
  int tokens_ = 0;
  int k_ = 0;
};

#endif

}  // namespace quern::cpu
