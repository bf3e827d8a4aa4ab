#include "command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

namespace quern::cli {
namespace {

// Fields whose option has another name.
constexpr std::pair<std::string_view, std::string_view> kOptionNames[] = {
    {"stop_token_ids", "--stop-ids"}, {"allowed_token_ids", "--allowed-ids"}, {"num_threads", "--threads"},
    {"kv_disk_path", "--kv-disk"},    {"kv_disk_bytes", "--kv-disk-size"},    {"adapter", "--lora"},
};

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || c == '_';
}

std::optional<std::string> option_of(std::string_view field, const CLI::App& command) {
  std::string option;
  for (const auto& [name, other] : kOptionNames) {
    if (name == field) option = other;
  }
  if (option.empty()) {
    option = "--" + std::string(field);
    std::ranges::replace(option, '_', '-');
  }
  if (command.get_option_no_throw(option) == nullptr) return std::nullopt;
  return option;
}

// Words with an underscore are names; others may be plain English. One in quotes or in a path was typed by the user.
std::string rename_words(std::string_view text, const CLI::App& command) {
  constexpr std::string_view kNotAround = "'\"/.-=";
  std::string result;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin;
    while (end < text.size() && is_letter(text[end])) ++end;
    const std::string_view word = text.substr(begin, end - begin);
    const bool alone = (begin == 0 || kNotAround.find(text[begin - 1]) == std::string_view::npos) &&
                       (end == text.size() || kNotAround.find(text[end]) == std::string_view::npos);
    const auto option = alone && word.find('_') != std::string_view::npos ? option_of(word, command) : std::nullopt;
    result += option ? *option : std::string(word);
    if (end < text.size()) result += text[end++];
    begin = end;
  }
  return result;
}

}  // namespace

int report(const Error& error) {
  std::string line = error.message;
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  std::fprintf(stderr, "quern: %s\n", line.c_str());
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kInvalidFile:
    case ErrorCode::kNotFound:
    case ErrorCode::kUnsupported: return 2;
    default: return 1;
  }
}

void finish(const Status& status, const CLI::App& command, ExitCode& exit) {
  exit.value = status ? 0 : report(in_terms_of_options(status.error(), command));
}

Error in_terms_of_options(Error error, const CLI::App& command) {
  if (error.code == ErrorCode::kNotFound || error.code == ErrorCode::kInvalidFile) return error;
  const auto end = std::ranges::find_if_not(error.message, [](char c) { return is_letter(c) || c == '-'; });
  const auto length = static_cast<size_t>(end - error.message.begin());
  if (length > 1 && end != error.message.end() && *end == ':') {
    if (const auto option = option_of(error.message.substr(0, length), command)) {
      error.message.replace(0, length, *option);
    }
  }
  error.message = rename_words(error.message, command);
  return error;
}

Error with_name(Error error, std::string_view field, std::string_view name) {
  const std::string& message = error.message;
  if (message.starts_with(field) && message.substr(field.size()).starts_with(": ")) {
    error.message = std::string(name) + message.substr(field.size());
  }
  return error;
}

Error prefixed(Error error, std::string_view name) {
  error.message = fmt::format("{}: {}", name, error.message);
  return error;
}

void refuse_empty_numbers(CLI::App& app) {
  const auto check = [](const std::string& value) {
    return value.find_first_not_of(" \t") == std::string::npos ? std::string("'' is not a number") : std::string();
  };
  for (CLI::App* command : app.get_subcommands({})) {
    for (CLI::Option* option : command->get_options()) {
      const std::string type = option->get_type_name();
      if (type.starts_with("INT") || type.starts_with("UINT") || type.starts_with("FLOAT")) option->check(check);
    }
  }
}

}  // namespace quern::cli
