#include "input.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>

#include "base/status.h"

namespace quern::cli {

namespace {

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

// Closes what open() gave.
class OpenFile {
 public:
  explicit OpenFile(int fd) : fd_(fd) {}
  ~OpenFile() { ::close(fd_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

// Read, not mapped: pipes and devices cannot be, and a file may be cut short while it is looked at.
Result<std::string> read_all(int fd, const std::string& name) {
  std::string text;
  std::vector<char> buffer(1 << 16);
  for (;;) {
    const ssize_t count = ::read(fd, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return invalid_file(fmt::format("{}: {}", name, std::strerror(errno)));
    if (count == 0) return text;
    if (text.size() + static_cast<size_t>(count) > kTextBytesMax) {
      return invalid_file(fmt::format("{}: more than {} MiB", name, kTextBytesMax >> 20));
    }
    text.append(buffer.data(), static_cast<size_t>(count));
  }
}

Result<std::string> read_stdin() {
  static bool taken = false;
  if (std::exchange(taken, true)) return invalid_argument("stdin: only one option can read it");
  return read_all(STDIN_FILENO, "stdin");
}

Result<std::vector<int32_t>> parse_list(std::string_view option, std::string_view text, std::string_view item_name) {
  std::vector<int32_t> numbers;
  if (trimmed(text).empty()) return invalid_argument(fmt::format("{}: the list is empty", option));
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view item = trimmed(text.substr(begin, end - begin));
    int32_t number = 0;
    if (!parse_whole(item, number)) {
      return invalid_argument(fmt::format("{}: '{}' is not a {}", option, item, item_name));
    }
    numbers.push_back(number);
    begin = end + 1;
  }
  return numbers;
}

}  // namespace

Result<std::vector<int32_t>> parse_ids(std::string_view option, std::string_view text) {
  return parse_list(option, text, "token id");
}

Result<std::vector<int32_t>> parse_numbers(std::string_view option, std::string_view text) {
  return parse_list(option, text, "number");
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
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return make_error(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kInvalidFile,
                      fmt::format("{}: {}", path, std::strerror(errno)));
  }
  const OpenFile file(fd);
  return read_all(file.get(), path);
}

std::string input_name(const std::string& path) {
  return path == "-" ? "stdin" : path;
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
  }
  return lines;
}

Result<bool> read_stdin_line(std::string& line, size_t bytes_max) {
  line.clear();
  for (int c = std::getc(stdin); c != EOF; c = std::getc(stdin)) {
    if (c == '\n') return true;
    if (line.size() == bytes_max) {
      return make_error(ErrorCode::kInvalidFile, fmt::format("stdin: a line of more than {} MiB", bytes_max >> 20));
    }
    line.push_back(static_cast<char>(c));
  }
  return !line.empty();
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
  QUERN_ASSIGN(Json json, parse_json(text, input_name(path)));
  return parse_conversation(std::move(json), input_name(path));
}

}  // namespace quern::cli
