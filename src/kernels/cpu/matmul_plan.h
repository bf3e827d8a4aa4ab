// How one product is cut into tasks for threads: chunks of rows times chunks of tokens. A plan moves work about and
// changes no result.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quern {

struct MatmulPlan {
  int64_t rows = 0;
  int64_t num_tokens = 0;
  int64_t row_chunk = 1;
  int64_t token_chunk = 1;

  // Weights read in place: row chunks are multiples of kFloatTileRows.
  static MatmulPlan in_place(int64_t rows, int64_t cols, int64_t num_tokens, int32_t num_threads);
  // Packed weights: row chunks are pairs of panels, of three for more than a few tokens; token chunks multiples of
  // kTileTokens.
  static MatmulPlan packed(int64_t rows, int64_t cols, int64_t num_tokens, size_t panel_bytes, int32_t num_threads);

  struct Part {
    int64_t row_begin;
    int64_t row_end;
    int64_t token_begin;
    int64_t token_end;
  };
  int64_t num_tasks() const;
  Part part(int64_t task) const;  // task < num_tasks()
};

}  // namespace quern
