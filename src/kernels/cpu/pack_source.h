// One record of a source row, taken apart: codes and scales as the file stores them, in the order of k.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/pack_layout.h"

namespace quern {

struct SourceRecord {
  alignas(32) uint8_t codes[kRecordBlocksMax * kBlockCols];
  uint16_t d = 0;
  uint16_t dmin = 0;
  uint8_t sub_scales[kRecordBlocksMax][2];  // [block][half]; signed formats hold the byte of a signed char
  uint8_t sub_mins[kRecordBlocksMax];
};

// `source` holds the bytes of packed_layout(dtype).record_blocks * 32 elements. Fields that the format lacks are
// untouched.
void read_source_record(DType dtype, const std::byte* source, SourceRecord& record);

}  // namespace quern
