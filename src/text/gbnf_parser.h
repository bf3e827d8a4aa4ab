// GBNF text to a tree.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quern/status.h"

namespace quern::gbnf {

struct Node {
  enum class Kind : uint8_t { kLiteral, kClass, kAny, kRule, kSequence, kChoice, kRepeat };
  Kind kind = Kind::kSequence;
  std::string text;                                   // of a literal; the name of a rule
  std::vector<std::pair<uint32_t, uint32_t>> ranges;  // of a class: code points, both ends included
  bool negated = false;                               // of a class
  int32_t min = 0, max = -1;                          // of a repeat; -1: no limit
  std::vector<Node> children;
};

struct Rule {
  std::string name;
  Node body;
};

// In the order of the text. kInvalidArgument names the line.
Result<std::vector<Rule>> parse(std::string_view text);

}  // namespace quern::gbnf
