// Finds marks (words of a format) in text that comes character by character.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quern::tools {

class MarkerFinder {
 public:
  explicit MarkerFinder(std::vector<std::string> markers) : markers_(std::move(markers)) {}

  // The mark that ends with `c`, as its place in the list. Text that belongs to no mark is appended to `text`; what
  // may still become one is held back.
  std::optional<size_t> feed(char c, std::string& text);
  void flush(std::string& text);

 private:
  std::vector<std::string> markers_;
  std::string held_;
};

}  // namespace quern::tools
