#include "tensor_run.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "tensor/dequantize.h"

namespace quern::fuzz {

void run_tensors(const TensorFile& file) {
  constexpr int64_t kElementsMax = 512;
  std::vector<float> values(kElementsMax);
  for (const TensorView& tensor : file.tensors()) {
    QUERN_CHECK(file.find(tensor.name) != nullptr);
    const int64_t block = dtype_info(tensor.dtype).block_elements;
    const int64_t count = std::min(tensor.elements(), kElementsMax) / block * block;
    if (count > 0) dequantize(tensor.dtype, tensor.bytes.data(), values.data(), count);
  }
}

}  // namespace quern::fuzz
