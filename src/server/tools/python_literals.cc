#include "server/tools/python_literals.h"

#include <cstdlib>

namespace quern::tools {
namespace {

constexpr int kDepthMax = 50;

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  std::optional<std::vector<PythonCall>> calls() {
    const bool in_list = take('[');
    std::vector<PythonCall> calls;
    for (;;) {
      while (take(',') || take(';')) {
      }
      if (in_list && take(']')) break;
      if (at_end()) break;
      auto next = call();
      if (!next && at_ >= text_.size()) return calls;
      if (!next) return std::nullopt;
      calls.push_back(std::move(*next));
    }
    if (!at_end()) return std::nullopt;
    return calls;
  }

 private:
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r'))
      ++at_;
  }
  bool at_end() {
    skip();
    return at_ == text_.size();
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::string name() {
    skip();
    const size_t begin = at_;
    while (at_ < text_.size() && is_name_char(text_[at_])) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  std::optional<PythonCall> call() {
    PythonCall call{.name = name()};
    if (call.name.empty() || !take('(')) return std::nullopt;
    if (call.name == "print") {
      auto inner = this->call();
      if (!inner || !take(')')) return std::nullopt;
      return inner;
    }
    while (!take(')')) {
      const std::string key = name();
      if (key.empty() || !take('=')) return std::nullopt;
      auto argument = value(0);
      if (!argument || call.arguments.contains(key)) return std::nullopt;
      call.arguments[key] = std::move(*argument);
      if (take(',')) continue;
      if (!take(')')) return std::nullopt;
      break;
    }
    return call;
  }

  std::optional<Json> value(int depth) {
    skip();
    if (at_ >= text_.size() || depth > kDepthMax) return std::nullopt;
    const char c = text_[at_];
    if (c == '[' || c == '(') return list(c == '[' ? ']' : ')', depth);
    if (c == '{') return object(depth);
    if (c == '"' || c == '\'') return strings();
    if (c == '-' || c == '+' || (c >= '0' && c <= '9') || c == '.') return number();
    const std::string word = name();
    if (word == "True" || word == "true") return Json(true);
    if (word == "False" || word == "false") return Json(false);
    if (word == "None" || word == "null") return Json(nullptr);
    return std::nullopt;
  }

  std::optional<Json> list(char close, int depth) {
    ++at_;
    Json items = Json::array();
    while (!take(close)) {
      auto item = value(depth + 1);
      if (!item) return std::nullopt;
      items.push_back(std::move(*item));
      if (!take(',')) {
        if (!take(close)) return std::nullopt;
        break;
      }
    }
    return items;
  }

  std::optional<Json> object(int depth) {
    ++at_;
    Json items = Json::object();
    while (!take('}')) {
      auto key = value(depth + 1);
      if (!key || !key->is_string() || !take(':')) return std::nullopt;
      auto item = value(depth + 1);
      if (!item) return std::nullopt;
      items[key->get<std::string>()] = std::move(*item);
      if (!take(',')) {
        if (!take('}')) return std::nullopt;
        break;
      }
    }
    return items;
  }

  // Neighbouring strings are one.
  std::optional<Json> strings() {
    std::string text;
    for (skip(); at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\''); skip()) {
      if (!string(text)) return std::nullopt;
    }
    return Json(std::move(text));
  }

  bool string(std::string& text) {
    const char quote = text_[at_];
    const std::string triple(3, quote);
    const std::string close = text_.substr(at_).starts_with(triple) ? triple : std::string(1, quote);
    at_ += close.size();
    while (!text_.substr(at_).starts_with(close)) {
      if (at_ >= text_.size()) return false;
      if (text_[at_] != '\\') {
        text += text_[at_++];
      } else if (!escape(text)) {
        return false;
      }
    }
    at_ += close.size();
    return true;
  }

  // The text ends in the middle of something.
  bool cut() {
    at_ = text_.size();
    return false;
  }

  bool escape(std::string& text) {
    if (at_ + 1 >= text_.size()) return cut();
    const char c = text_[at_ + 1];
    at_ += 2;
    switch (c) {
      case 'n': text += '\n'; return true;
      case 't': text += '\t'; return true;
      case 'r': text += '\r'; return true;
      case '\n': return true;
      case '\\':
      case '\'':
      case '"': text += c; return true;
      case 'u': {
        // JSON knows the same escape, surrogates included.
        if (text_.size() - at_ < 4) return cut();
        std::string quoted = "\"\\u" + std::string(text_.substr(at_, 4));
        at_ += 4;
        if (text_.substr(at_).starts_with("\\u") && (quoted[3] == 'd' || quoted[3] == 'D')) {
          if (text_.size() - at_ < 6) return cut();
          quoted += text_.substr(at_, 6);
          at_ += 6;
        }
        const auto decoded = parse_json(quoted + "\"", "string");
        if (!decoded || !decoded->is_string()) return false;
        text += decoded->get<std::string>();
        return true;
      }
      default:
        text += '\\';
        text += c;
        return true;
    }
  }

  std::optional<Json> number() {
    const size_t begin = at_;
    while (at_ < text_.size() && (is_name_char(text_[at_]) || text_[at_] == '+')) ++at_;
    std::string digits;
    for (const char c : text_.substr(begin, at_ - begin)) {
      if (c != '_') digits += c;
    }
    if (digits.starts_with('+')) digits.erase(0, 1);
    if (digits.ends_with('.')) digits += '0';
    const auto parsed = parse_json(digits, "number");
    if (!parsed || !parsed->is_number()) return std::nullopt;
    return *parsed;
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::optional<std::vector<PythonCall>> parse_python_calls(std::string_view text) {
  return Reader(text).calls();
}

}  // namespace quern::tools
