#include "formats/name_index.h"

#include <algorithm>

namespace quern {

NameIndex::NameIndex(std::span<const TensorView> tensors) {
  by_name_.reserve(tensors.size());
  for (const TensorView& tensor : tensors) by_name_.push_back(&tensor);
  std::ranges::sort(by_name_, {}, &TensorView::name);
}

const TensorView* NameIndex::find(std::string_view name) const {
  const auto name_of = [](const TensorView* tensor) { return std::string_view(tensor->name); };
  const auto it = std::ranges::lower_bound(by_name_, name, {}, name_of);
  return it != by_name_.end() && name_of(*it) == name ? *it : nullptr;
}

const TensorView* NameIndex::first_duplicate() const {
  const auto it = std::ranges::adjacent_find(by_name_, {}, &TensorView::name);
  return it != by_name_.end() ? *it : nullptr;
}

}  // namespace quern
