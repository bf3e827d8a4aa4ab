// Finds tensors by name. Sorted rather than hashed: names come from a file, and no choice of names makes sorting slow.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tensor/tensor_view.h"

namespace quern {

class NameIndex {
 public:
  NameIndex() = default;
  explicit NameIndex(std::span<const TensorView> tensors);  // which must outlive the index and keep their place

  const TensorView* find(std::string_view name) const;  // nullptr when absent
  const TensorView* first_duplicate() const;            // a tensor whose name occurs more than once, or nullptr

 private:
  std::vector<const TensorView*> by_name_;
};

}  // namespace quern
