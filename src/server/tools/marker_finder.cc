#include "server/tools/marker_finder.h"

#include <algorithm>

#include "server/tools/call_sink.h"

namespace quern::tools {

std::optional<size_t> MarkerFinder::feed(char c, std::string& text) {
  held_ += c;
  size_t held = 0;
  for (size_t i = 0; i < markers_.size(); ++i) {
    if (held_.ends_with(markers_[i])) {
      text.append(held_, 0, held_.size() - markers_[i].size());
      held_.clear();
      return i;
    }
    held = std::max(held, partial_marker(held_, markers_[i]));
  }
  text.append(held_, 0, held_.size() - held);
  held_.erase(0, held_.size() - held);
  return std::nullopt;
}

void MarkerFinder::flush(std::string& text) {
  text += held_;
  held_.clear();
}

}  // namespace quern::tools
