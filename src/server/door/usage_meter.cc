#include "server/door/usage_meter.h"

#include <algorithm>
#include <charconv>

#include "base/json.h"

namespace quern::door {
namespace {

constexpr size_t kUsageBytesMax = 4096;
constexpr int64_t kTokensMax = int64_t{1} << 40;  // nobody's: a count above it is none
constexpr std::string_view kUsage = "\"usage\"";
constexpr std::string_view kRead = "\"prompt_eval_count\"", kWritten = "\"eval_count\"";

// Behind the blanks and the colon that follow a key; npos: the text ends there.
size_t value_behind(std::string_view text, size_t at) {
  at = text.find_first_not_of(" \t", at);
  if (at == std::string_view::npos || text[at] != ':') return at;
  return text.find_first_not_of(" \t", at + 1);
}

// The object that begins at `at`; empty: it is not whole. Its strings have no braces of their own that count.
std::string_view object_at(std::string_view text, size_t at) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = at; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
      continue;
    }
    if (c == '"') in_string = true;
    if (c == '{') ++depth;
    if (c == '}' && --depth == 0) return text.substr(at, i + 1 - at);
  }
  return {};
}

std::optional<int64_t> count_of(const Json& usage, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    const auto found = usage.find(key);
    if (found == usage.end() || !found->is_number_integer()) continue;
    const auto count = found->get<int64_t>();
    if (count >= 0 && count <= kTokensMax) return count;
  }
  return std::nullopt;
}

// How much of the end of `text` may be the beginning of `key`.
size_t begun(std::string_view text, std::string_view key) {
  for (size_t size = std::min(text.size(), key.size() - 1); size > 0; --size) {
    if (text.ends_with(key.substr(0, size))) return size;
  }
  return 0;
}

bool has_either(std::string_view line, std::string_view a, std::string_view b) {
  return line.find(a) != std::string_view::npos || line.find(b) != std::string_view::npos;
}

}  // namespace

void UsageMeter::look_at(std::string_view usage) {
  const auto parsed = parse_json(usage, "usage");
  if (!parsed || !parsed->is_object()) return;
  if (const auto count = count_of(*parsed, {"prompt_tokens", "input_tokens"})) input_ = count;
  if (const auto count = count_of(*parsed, {"completion_tokens", "output_tokens"})) output_ = count;
  const auto read = count_of(*parsed, {"cache_read_input_tokens"});
  const auto made = count_of(*parsed, {"cache_creation_input_tokens"});
  if (read || made) cached_ = read.value_or(0) + made.value_or(0);
}

// From where on the text must be seen again, once more of it is there.
size_t UsageMeter::look_for_counts(std::string_view text) {
  size_t again = text.size();
  for (size_t at = text.find(kUsage); at != std::string_view::npos; at = text.find(kUsage, at + 1)) {
    const size_t value = value_behind(text, at + kUsage.size());
    if (value == std::string_view::npos) return std::min(again, at);
    if (text[value] != '{') continue;
    const std::string_view object = object_at(text.substr(0, std::min(text.size(), value + kUsageBytesMax)), value);
    if (!object.empty()) look_at(object);
    if (object.empty() && text.size() < value + kUsageBytesMax) return std::min(again, at);
  }
  for (const std::string_view key : {kRead, kWritten}) {
    for (size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1)) {
      const size_t value = value_behind(text, at + key.size());
      const size_t end = value == std::string_view::npos ? value : text.find_first_not_of("0123456789", value);
      if (end == std::string_view::npos && text.size() - at < key.size() + 32) {
        again = std::min(again, at);
        break;
      }
      int64_t count = -1;
      if (end == std::string_view::npos) continue;
      std::from_chars(text.data() + value, text.data() + end, count);
      if (count >= 0 && count <= kTokensMax) (key == kRead ? input_ : output_) = count;
    }
  }
  for (const std::string_view key : {kUsage, kRead, kWritten}) again = std::min(again, text.size() - begun(text, key));
  return again;
}

void UsageMeter::see(std::string_view bytes) {
  if (bytes.empty()) return;
  if (at_line_start_ && (bytes.starts_with("data:") || bytes.starts_with("{"))) ++events_;
  for (size_t at = bytes.find('\n'); at != std::string_view::npos; at = bytes.find('\n', at + 1)) {
    const std::string_view line = bytes.substr(at + 1);
    if (line.starts_with("data:") || line.starts_with("{")) ++events_;
  }
  at_line_start_ = bytes.back() == '\n';
  if (held_.empty()) {
    held_ = bytes.substr(look_for_counts(bytes));
    return;
  }
  const std::string text = std::move(held_) + std::string(bytes);
  held_ = text.substr(look_for_counts(text));
}

int64_t UsageMeter::tokens(bool is_whole, int64_t prompt_guess) const {
  const int64_t input = input_ ? *input_ + cached_ : prompt_guess;
  if (is_whole && told()) return (input_ ? input : 0) + output_.value_or(0);
  return input + std::max(output_.value_or(0), events_);
}

std::string UsageHider::pass(std::string lines) {
  if (!drops_blank_ && lines.find(kUsage) == std::string::npos) return lines;
  std::string kept;
  for (std::string_view rest = lines; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size() - 1) + 1;
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end);
    if (std::exchange(drops_blank_, false) && (line == "\n" || line == "\r\n")) continue;
    const bool asked_for =
        has_either(line, "\"choices\":[]", "\"choices\": []") && has_either(line, "\"usage\":{", "\"usage\": {");
    if (asked_for && line.starts_with("data:")) {
      drops_blank_ = true;
      continue;
    }
    for (const std::string_view null : {",\"usage\":null", ", \"usage\": null"}) {
      const size_t at = line.find(null);
      if (at == std::string_view::npos) continue;
      kept += line.substr(0, at);
      line.remove_prefix(at + null.size());
    }
    kept += line;
  }
  return kept;
}

std::optional<std::string> asking_for_usage(std::string_view written) {
  Json options = Json::object();
  if (!written.empty() && written != "null") {
    auto parsed = parse_json(written, "stream_options");
    if (!parsed || !parsed->is_object()) return std::nullopt;
    options = std::move(*parsed);
  }
  if (options.value("include_usage", Json()) == true) return std::nullopt;
  options["include_usage"] = true;
  return dump_json(options);
}

}  // namespace quern::door
