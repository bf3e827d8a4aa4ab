// What every container gives: named tensors whose bytes stay in the mapped files. Reading checks every bound; after
// open() succeeded, each view is inside its mapping, of known type, aligned to the format's rule, unique by name.
#pragma once

#include <span>
#include <string_view>

#include "tensor/tensor_view.h"

namespace quern {

class TensorFile {
 public:
  virtual ~TensorFile() = default;
  virtual std::span<const TensorView> tensors() const = 0;          // in file order, all shards
  virtual const TensorView* find(std::string_view name) const = 0;  // nullptr when absent
};

}  // namespace quern
