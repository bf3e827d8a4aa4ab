#include "formats/checked_shape.h"

#include <limits>

#include "base/check.h"
#include "base/status.h"

namespace quern {

Result<uint64_t> checked_bytes(DType dtype, const Shape& shape, std::string_view what) {
  constexpr auto kMax = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  const DTypeInfo& info = dtype_info(dtype);
  uint64_t product = 1;
  bool empty = false;
  for (const int64_t dimension : shape) {
    QUERN_CHECK(dimension >= 0);
    empty = empty || dimension == 0;
    const uint64_t factor = dimension == 0 ? 1 : static_cast<uint64_t>(dimension);
    if (product > kMax / factor) {
      return invalid_file(fmt::format("{}: shape {} overflows", what, shape_string(shape)));
    }
    product *= factor;
  }
  const int64_t row = shape.empty() ? 1 : shape.back();
  if (row % info.block_elements != 0) {
    return invalid_file(fmt::format("{}: rows of {} elements are not whole {} blocks of {}", what, row, info.name,
                                    info.block_elements));
  }
  if (empty) return 0;
  const auto bytes = dtype_bytes(dtype, product);
  if (!bytes || *bytes > kMax) {
    return invalid_file(fmt::format("{}: shape {} of {} overflows", what, shape_string(shape), info.name));
  }
  return *bytes;
}

}  // namespace quern
