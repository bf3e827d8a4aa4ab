#include "text/gbnf_parser.h"

#include <algorithm>

#include "base/status.h"

namespace quern::gbnf {
namespace {

constexpr int32_t kRepeatMax = 10'000;

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

void append_utf8(uint32_t code, std::string& text) {
  const auto add = [&](uint32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xC0 | (code >> 6));
    add(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    add(0xE0 | (code >> 12));
    add(0x80 | ((code >> 6) & 0x3F));
    add(0x80 | (code & 0x3F));
  } else {
    add(0xF0 | (code >> 18));
    add(0x80 | ((code >> 12) & 0x3F));
    add(0x80 | ((code >> 6) & 0x3F));
    add(0x80 | (code & 0x3F));
  }
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<std::vector<Rule>> rules() {
    std::vector<Rule> rules;
    skip_blanks(true);
    while (at_ < text_.size()) {
      Rule rule;
      QUERN_ASSIGN(rule.name, name());
      skip_blanks(false);
      if (!take("::=")) return fault("expected ::=");
      skip_blanks(true);
      QUERN_ASSIGN(rule.body, choice(false));
      if (std::ranges::find(rules, rule.name, &Rule::name) != rules.end()) {
        return fault(fmt::format("rule '{}' is defined twice", rule.name));
      }
      rules.push_back(std::move(rule));
      skip_blanks(true);
    }
    return rules;
  }

 private:
  std::unexpected<Error> fault(std::string_view what) const {
    const auto line = 1 + std::count(text_.begin(), text_.begin() + static_cast<ptrdiff_t>(at_), '\n');
    return invalid_argument(fmt::format("GBNF, line {}: {}", line, what));
  }
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool take(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  void skip_blanks(bool newlines) {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (c == ' ' || c == '\t' || (newlines && (c == '\n' || c == '\r'))) {
        ++at_;
      } else {
        return;
      }
    }
  }

  Result<std::string> name() {
    const size_t begin = at_;
    while (is_name_char(peek())) ++at_;
    if (begin == at_) return fault("expected the name of a rule");
    return std::string(text_.substr(begin, at_ - begin));
  }

  Result<Node> choice(bool nested) {
    Node node{.kind = Node::Kind::kChoice};
    for (;;) {
      QUERN_ASSIGN(Node option, sequence(nested));
      node.children.push_back(std::move(option));
      // A bar at the beginning of the next line goes on with the same rule.
      const size_t before = at_;
      skip_blanks(true);
      if (!take("|")) {
        if (!nested) at_ = before;
        break;
      }
      skip_blanks(true);
    }
    if (node.children.size() == 1) return Node(std::move(node.children.front()));
    return node;
  }

  Result<Node> sequence(bool nested) {
    Node node{.kind = Node::Kind::kSequence};
    for (;;) {
      skip_blanks(nested);
      const char c = peek();
      if (c == '\0' || c == '|' || c == ')' || c == '\n' || c == '\r') return node;
      QUERN_ASSIGN(Node item, atom());
      QUERN_TRY(repeats(item));
      node.children.push_back(std::move(item));
    }
  }

  Result<Node> atom() {
    const char c = peek();
    if (c == '"') return literal();
    if (c == '[') return char_class();
    if (c == '.') {
      ++at_;
      return Node{.kind = Node::Kind::kAny};
    }
    if (c == '(') {
      ++at_;
      skip_blanks(true);
      QUERN_ASSIGN(Node inner, choice(true));
      skip_blanks(true);
      if (!take(")")) return fault("expected )");
      return inner;
    }
    if (!is_name_char(c)) return fault(fmt::format("'{}' begins no item", c));
    Node node{.kind = Node::Kind::kRule};
    QUERN_ASSIGN(node.text, name());
    return node;
  }

  Status repeats(Node& item) {
    for (;;) {
      Node repeat{.kind = Node::Kind::kRepeat};
      if (take("*")) {
        repeat.min = 0;
      } else if (take("+")) {
        repeat.min = 1;
      } else if (take("?")) {
        repeat.max = 1;
      } else if (take("{")) {
        QUERN_TRY(bounds(repeat));
      } else {
        return {};
      }
      repeat.children.push_back(std::move(item));
      item = std::move(repeat);
    }
  }

  Status bounds(Node& repeat) {
    skip_blanks(false);
    QUERN_ASSIGN(repeat.min, number());
    repeat.max = repeat.min;
    skip_blanks(false);
    if (take(",")) {
      skip_blanks(false);
      repeat.max = -1;
      if (peek() != '}') {
        QUERN_ASSIGN(repeat.max, number());
      }
      skip_blanks(false);
    }
    if (!take("}")) return fault("expected }");
    if (repeat.max >= 0 && repeat.max < repeat.min) return fault("a repetition with its bounds reversed");
    return {};
  }

  Result<int32_t> number() {
    int32_t value = 0;
    const size_t begin = at_;
    for (; peek() >= '0' && peek() <= '9'; ++at_) {
      value = value * 10 + (peek() - '0');
      if (value > kRepeatMax) return fault(fmt::format("a repetition over the limit of {}", kRepeatMax));
    }
    if (begin == at_) return fault("expected a number");
    return value;
  }

  Result<Node> literal() {
    Node node{.kind = Node::Kind::kLiteral};
    ++at_;
    while (peek() != '"') {
      QUERN_ASSIGN(const uint32_t code, code_point());
      append_utf8(code, node.text);
    }
    ++at_;
    return node;
  }

  Result<Node> char_class() {
    Node node{.kind = Node::Kind::kClass};
    ++at_;
    node.negated = take("^");
    while (peek() != ']') {
      QUERN_ASSIGN(const uint32_t first, code_point());
      uint32_t last = first;
      if (peek() == '-' && peek(1) != ']') {
        ++at_;
        QUERN_ASSIGN(last, code_point());
        if (last < first) return fault("a character range with its ends reversed");
      }
      node.ranges.emplace_back(first, last);
    }
    ++at_;
    if (node.ranges.empty()) return fault("an empty character class");
    return node;
  }

  Result<uint32_t> hex(int digits) {
    uint32_t value = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      const char c = peek();
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) return fault("expected a hexadecimal digit");
      value = value * 16 + static_cast<uint32_t>(digit);
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) return fault("an escape that is no character");
    return value;
  }

  Result<uint32_t> escape() {
    const char c = peek();
    ++at_;
    switch (c) {
      case 'n': return '\n';
      case 'r': return '\r';
      case 't': return '\t';
      case 'x': return hex(2);
      case 'u': return hex(4);
      case 'U': return hex(8);
      case '"':
      case '\\':
      case '[':
      case ']':
      case '-':
      case '^': return static_cast<uint32_t>(c);
      default: --at_; return fault(fmt::format("the escape \\{} is not known", c));
    }
  }

  // One character of a literal or a class.
  Result<uint32_t> code_point() {
    const auto first = static_cast<unsigned char>(peek());
    if (at_ >= text_.size() || first == '\n') return fault("a string or class that does not end");
    ++at_;
    if (first == '\\') return escape();
    if (first < 0x80) return first;
    const int more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
    uint32_t code = first & (0x3Fu >> more);
    for (int i = 0; i < more; ++i, ++at_) {
      const auto next = static_cast<unsigned char>(peek());
      if ((next & 0xC0) != 0x80) return fault("invalid UTF-8");
      code = (code << 6) | (next & 0x3F);
    }
    return code;
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

Result<std::vector<Rule>> parse(std::string_view text) {
  return Parser(text).rules();
}

}  // namespace quern::gbnf
