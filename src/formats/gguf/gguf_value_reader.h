// Reads the typed values of GGUF metadata, with limits on depth and on the memory that arrays take.
#pragma once

#include <cstdint>

#include "formats/byte_reader.h"
#include "formats/gguf/gguf_value.h"
#include "quern/status.h"

namespace quern {

class GgufValueReader {
 public:
  static constexpr int kArrayDepthMax = 4;
  // Of all arrays of a file together. Vocabularies have 2^18 to 2^20 entries in three arrays.
  static constexpr uint64_t kArrayItemsMax = uint64_t{1} << 23;

  explicit GgufValueReader(ByteReader& bytes) : bytes_(bytes) {}

  // A string: u64 size and bytes. The view lives as long as the bytes. Errors as below.
  Result<std::string_view> read_string(uint64_t size_max);

  // The value after a key, its type number first. Errors: kInvalidFile saying what is wrong; the caller adds file and
  // key.
  Result<GgufValue> read_value();

 private:
  Result<uint32_t> read_type();
  Result<GgufArray> read_array(int depth);
  template <class Stored, class Wide>
  Result<std::vector<Wide>> read_numbers(uint64_t count);
  Result<std::vector<uint64_t>> read_bools(uint64_t count);
  Result<std::vector<std::string>> read_strings(uint64_t count);
  Result<std::vector<GgufArray>> read_arrays(uint64_t count, int depth);
  template <class Stored, class Wide>
  Result<GgufValue> read_number(uint32_t type);
  std::unexpected<Error> ended() const;

  ByteReader& bytes_;
  uint64_t array_items_ = 0;
};

}  // namespace quern
