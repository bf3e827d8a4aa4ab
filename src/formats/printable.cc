#include "formats/printable.h"

#include <fmt/format.h>

namespace quern {

std::string printable(std::string_view text) {
  constexpr size_t kShownMax = 96;
  std::string shown = "'";
  for (const char c : text.substr(0, kShownMax)) {
    if (c >= 0x20 && c < 0x7f) {
      shown += c;
    } else {
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  if (text.size() > kShownMax) shown += "…";
  return shown + "'";
}

}  // namespace quern
