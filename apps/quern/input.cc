#include "input.h"

#include <charconv>
#include <cstdio>

#include "base/mapped_file.h"
#include "base/status.h"

namespace quern::cli {

namespace {

constexpr size_t kStdinBytesMax = size_t{256} << 20;

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\n\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\n\r") - begin + 1);
}

template <class Number>
bool parse_whole(std::string_view text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

Result<std::string> read_stdin() {
  std::string text;
  char buffer[1 << 16];
  while (const size_t count = std::fread(buffer, 1, sizeof buffer, stdin)) {
    if (text.size() + count > kStdinBytesMax) return invalid_argument("stdin: more than 256 MiB");
    text.append(buffer, count);
  }
  return text;
}

}  // namespace

Result<std::vector<int32_t>> parse_ids(std::string_view option, std::string_view text) {
  std::vector<int32_t> ids;
  if (trimmed(text).empty()) return invalid_argument(fmt::format("{}: the list of ids is empty", option));
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view item = trimmed(text.substr(begin, end - begin));
    int32_t id = 0;
    if (!parse_whole(item, id)) return invalid_argument(fmt::format("{}: '{}' is not a token id", option, item));
    ids.push_back(id);
    begin = end + 1;
  }
  return ids;
}

Result<std::pair<int32_t, float>> parse_logit_bias(std::string_view option, std::string_view text) {
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  std::string_view bias = text.substr(digits);
  if (!bias.empty() && (bias[0] == '=' || bias[0] == ':')) bias.remove_prefix(1);
  if (!bias.empty() && bias[0] == '+') bias.remove_prefix(1);
  std::pair<int32_t, float> result;
  if (!parse_whole(text.substr(0, digits), result.first) || !parse_whole(bias, result.second)) {
    return invalid_argument(fmt::format("{}: '{}' is not of the form ID=BIAS", option, text));
  }
  return result;
}

Result<std::string> read_text(const std::string& path) {
  if (path == "-") return read_stdin();
  QUERN_ASSIGN(const auto file, MappedFile::open(path));
  const auto bytes = file.bytes();
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Result<Conversation> parse_conversation(Json json, std::string_view what) {
  Conversation conversation;
  if (json.is_object()) {
    for (auto& [key, value] : json.items()) {
      if (key == "messages")
        conversation.messages = std::move(value);
      else if (key == "tools")
        conversation.tools = std::move(value);
      else if (key == "documents")
        conversation.documents = std::move(value);
      else
        return invalid_argument(fmt::format("{}: unknown field '{}'", what, key));
    }
  } else {
    conversation.messages = std::move(json);
  }
  if (!conversation.messages.is_array() || conversation.messages.empty()) {
    return invalid_argument(fmt::format("{}: there is no array of messages", what));
  }
  for (const Json& message : conversation.messages) {
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string()) {
      return invalid_argument(fmt::format("{}: a message is not an object with a role", what));
    }
  }
  return conversation;
}

Result<Conversation> read_conversation(const std::string& path) {
  QUERN_ASSIGN(const std::string text, read_text(path));
  QUERN_ASSIGN(Json json, parse_json(text, path));
  return parse_conversation(std::move(json), path);
}

}  // namespace quern::cli
