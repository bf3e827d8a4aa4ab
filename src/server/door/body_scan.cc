#include "server/door/body_scan.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/json.h"
#include "base/status.h"
#include "server/http/multipart.h"

namespace quern::door {
namespace {

// Where a look at nested values stops; all else between is stepped over.
constexpr auto kMarks = [] {
  std::array<bool, 256> marks{};
  for (const unsigned char c : {'"', '[', ']', '{', '}'}) marks[c] = true;
  return marks;
}();
constexpr size_t kNameBytesMax = 1024;  // of a key or a name that is looked at; no model has a longer one

// Steps over JSON without looking closer than it must.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char c) {
    skip_blanks();
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void skip_blanks() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t')) {
      ++at_;
    }
  }

  // The text of one value; nullopt when it does not end.
  std::optional<std::string_view> value() {
    skip_blanks();
    const size_t begin = at_;
    bool whole = false;
    if (peek() == '"') {
      whole = skip_string();
    } else if (peek() == '{' || peek() == '[') {
      whole = skip_nested();
    } else {
      at_ = std::min(text_.find_first_of(",]} \n\r\t", at_), text_.size());
      whole = at_ > begin;
    }
    if (!whole) return std::nullopt;
    return text_.substr(begin, at_ - begin);
  }

 private:
  // A quote ends the string when an even number of backslashes stands before it.
  bool skip_string() {
    const size_t begin = ++at_;
    for (;;) {
      const size_t quote = text_.find('"', at_);
      if (quote == std::string_view::npos) return false;
      at_ = quote + 1;
      size_t backslashes = 0;
      while (quote - backslashes > begin && text_[quote - backslashes - 1] == '\\') ++backslashes;
      if (backslashes % 2 == 0) return true;
    }
  }

  bool skip_nested() {
    size_t depth = 0;
    for (;;) {
      while (at_ < text_.size() && !kMarks[static_cast<unsigned char>(text_[at_])]) ++at_;
      if (at_ == text_.size()) return false;
      const char c = text_[at_];
      if (c == '"') {
        if (!skip_string()) return false;
        continue;
      }
      ++at_;
      if (c == '[' || c == '{') ++depth;
      if ((c == ']' || c == '}') && --depth == 0) return true;
    }
  }

  const std::string_view text_;
  size_t at_ = 0;
};

// The text of a JSON string, with its quotes, as characters.
std::optional<std::string> unescaped(std::string_view quoted) {
  if (quoted.size() < 2 || quoted.size() > kNameBytesMax || quoted.front() != '"') return std::nullopt;
  const std::string_view inner = quoted.substr(1, quoted.size() - 2);
  if (inner.find('\\') == std::string_view::npos) return std::string(inner);
  const auto parsed = parse_json(quoted, "name");
  if (!parsed || !parsed->is_string()) return std::nullopt;
  return parsed->get<std::string>();
}

void add_pieces(std::string_view text, std::vector<uint64_t>& prefix) {
  uint64_t parent = prefix.empty() ? 0 : prefix.back();
  while (text.size() >= kPrefixPieceBytes && prefix.size() < kPrefixPiecesMax) {
    parent = XXH3_64bits_withSeed(text.data(), kPrefixPieceBytes, parent);
    prefix.push_back(parent);
    text.remove_prefix(kPrefixPieceBytes);
  }
}

// Values at the top level that count; the last of several with one key, as JSON readers take it.
struct Found {
  std::string_view model, name, stream, stream_options, background, output_max, user, cache_key, tools, system,
      messages, prompt, input;

  std::string_view* place(std::string_view key) {
    if (key == "model") return &model;
    if (key == "name") return &name;
    if (key == "stream") return &stream;
    if (key == "stream_options") return &stream_options;
    if (key == "background") return &background;
    if (key == "max_output_tokens") return &output_max;
    if (key == "user") return &user;
    if (key == "prompt_cache_key") return &cache_key;
    if (key == "tools") return &tools;
    if (key == "system" || key == "instructions") return &system;
    if (key == "messages") return &messages;
    if (key == "prompt") return &prompt;
    if (key == "input") return &input;
    return nullptr;
  }
};

std::optional<Found> find_values(std::string_view json) {
  Cursor cursor(json);
  Found found;
  if (!cursor.take('{')) return std::nullopt;
  if (cursor.take('}')) return found;
  for (;;) {
    cursor.skip_blanks();
    if (cursor.peek() != '"') return std::nullopt;
    const auto key = cursor.value();
    if (!key || !cursor.take(':')) return std::nullopt;
    const auto value = cursor.value();
    if (!value) return std::nullopt;
    const auto name = unescaped(*key);
    if (std::string_view* place = name ? found.place(*name) : nullptr) *place = *value;
    if (cursor.take('}')) return found;
    if (!cursor.take(',')) return std::nullopt;
  }
}

}  // namespace

uint64_t session_of(std::string_view text) {
  const uint64_t hash = XXH3_64bits(text.data(), text.size());
  return hash == 0 ? 1 : hash;
}

std::optional<BodyScan> scan_body(std::string_view json) {
  const auto found = find_values(json);
  if (!found) return std::nullopt;
  BodyScan scan;
  scan.model_value = found->model.empty() || found->model == "null" ? found->name : found->model;
  auto model = unescaped(scan.model_value);
  if (!model || model->empty()) return std::nullopt;
  scan.model = std::move(*model);
  scan.stream = found->stream == "true";
  scan.stream_options = found->stream_options;
  scan.background = found->background == "true";
  const std::string_view most = found->output_max;
  std::from_chars(most.data(), most.data() + most.size(), scan.output_max);
  const std::string_view session = found->cache_key.starts_with('"') ? found->cache_key : found->user;
  if (session.starts_with('"')) scan.session = session_of(session);
  const std::string_view asked = !found->messages.empty() ? found->messages
                                 : !found->prompt.empty() ? found->prompt
                                                          : found->input;
  for (const std::string_view part : {found->tools, found->system, asked}) {
    add_pieces(part, scan.prefix);
    scan.prompt_bytes += part.size();
  }
  return scan;
}

Result<std::optional<BodyScan>> scan_form(std::string_view content_type, std::string_view body) {
  QUERN_ASSIGN(const auto parts, http::parse_multipart(content_type, body));
  std::optional<BodyScan> scan;
  for (const http::FormPart& part : parts) {
    if (part.name != "model") continue;
    if (scan) return invalid_argument("model: is in the form twice");
    if (!part.filename.empty()) return invalid_argument("model: is a file");
    if (part.body.empty() || part.body.size() > kNameBytesMax) {
      return invalid_argument(fmt::format("model: {} bytes, must be 1 to {}", part.body.size(), kNameBytesMax));
    }
    if (std::ranges::any_of(part.body, [](unsigned char c) { return c < 0x20 || c == 0x7f; })) {
      return invalid_argument("model: has control characters");
    }
    scan.emplace();
    scan->model = std::string(part.body);
    scan->model_value = part.body;
    scan->is_form = true;
  }
  return scan;
}

}  // namespace quern::door
