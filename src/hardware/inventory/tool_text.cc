#include "hardware/inventory/tool_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/status.h"

namespace quern {
namespace {

constexpr size_t kNameMax = 128;
constexpr int64_t kMemoryMax = int64_t{1} << 50;

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

bool starts_with_word(std::string_view text, std::string_view word) {
  return text.size() >= word.size() && std::ranges::equal(text.substr(0, word.size()), word, [](char a, char b) {
           return (a >= 'a' && a <= 'z' ? a - 32 : a) == b;
         });
}

}  // namespace

std::unexpected<Error> unreadable_output(std::string_view tool, std::string_view why) {
  return invalid_file(fmt::format("{}: its output is not understood: {}", tool, why));
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::vector<std::string_view> split_fields(std::string_view text, char separator) {
  std::vector<std::string_view> fields;
  while (true) {
    const size_t end = text.find(separator);
    fields.push_back(trimmed(text.substr(0, end)));
    if (end == std::string_view::npos) return fields;
    text.remove_prefix(end + 1);
  }
}

std::vector<std::string_view> split_wide(std::string_view text) {
  std::vector<std::string_view> parts;
  for (text = trimmed(text); !text.empty(); text = trimmed(text)) {
    const size_t end = std::min(text.find("  "), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return parts;
}

std::vector<std::string_view> split_words(std::string_view text) {
  std::vector<std::string_view> words;
  for (text = trimmed(text); !text.empty(); text = trimmed(text)) {
    const auto end = static_cast<size_t>(std::ranges::find_if(text, is_blank) - text.begin());
    words.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return words;
}

std::vector<std::vector<std::string_view>> table_rows(std::string_view text) {
  std::vector<std::vector<std::string_view>> rows;
  for (std::string_view line : split_lines(text)) {
    line = trimmed(line);
    if (!line.starts_with('|')) continue;
    line.remove_prefix(1);
    if (line.ends_with('|')) line.remove_suffix(1);
    rows.push_back(split_fields(line, '|'));
  }
  return rows;
}

std::string clean_name(std::string_view text) {
  std::string name(trimmed(text).substr(0, kNameMax));
  for (char& c : name) {
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e) c = '?';
  }
  return name;
}

std::optional<double> leading_number(std::string_view text) {
  text = trimmed(text);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<int32_t> small_index(std::string_view text) {
  constexpr int32_t kIndexMax = 1023;
  int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > kIndexMax) return std::nullopt;
  return value;
}

std::optional<int64_t> memory_bytes(std::string_view text, int64_t unit_bytes) {
  const auto number = leading_number(text);
  if (!number || *number < 0) return std::nullopt;
  text = trimmed(text);
  const std::string_view unit = trimmed(text.substr(std::min(text.find_first_not_of("0123456789."), text.size())));
  if (starts_with_word(unit, "T")) unit_bytes = int64_t{1} << 40;
  if (starts_with_word(unit, "G")) unit_bytes = int64_t{1} << 30;
  if (starts_with_word(unit, "M")) unit_bytes = int64_t{1} << 20;
  if (starts_with_word(unit, "K")) unit_bytes = int64_t{1} << 10;
  if (starts_with_word(unit, "B")) unit_bytes = 1;
  const double bytes = *number * static_cast<double>(unit_bytes);
  if (bytes > static_cast<double>(kMemoryMax)) return std::nullopt;
  return static_cast<int64_t>(bytes);
}

std::optional<double> load_of_percent(std::string_view text) {
  const auto percent = leading_number(text);
  if (!percent || *percent < 0 || *percent > 100) return std::nullopt;
  return *percent / 100;
}

std::string_view value_after(std::string_view text, std::string_view label) {
  const size_t at = text.find(label);
  if (at == std::string_view::npos) return {};
  std::string_view rest = text.substr(at + label.size());
  rest = trimmed(rest.substr(0, rest.find_first_of("|\n")));
  return rest.substr(0, rest.find("  "));
}

}  // namespace quern
