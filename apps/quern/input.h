// What commands read from their caller: lists of ids, files of text and messages. Every error names the option or the
// file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "quern/status.h"

namespace quern::cli {

// "1,2,3", blanks allowed; not empty.
Result<std::vector<int32_t>> parse_ids(std::string_view option, std::string_view text);

// The same for counts.
Result<std::vector<int32_t>> parse_numbers(std::string_view option, std::string_view text);

// "ID=BIAS", "ID:BIAS" or "ID+BIAS" / "ID-BIAS".
Result<std::pair<int32_t, float>> parse_logit_bias(std::string_view option, std::string_view text);

inline constexpr size_t kTextBytesMax = size_t{256} << 20;

// All of a file that an option names: a regular one, a pipe (/dev/stdin, <(…)), or "-" for stdin, which only one option
// can take. Longer than kTextBytesMax is refused.
Result<std::string> read_text(const std::string& path);

// "-" as "stdin", for messages.
std::string input_name(const std::string& path);

// Lines without their ends; a last one without an end counts.
std::vector<std::string_view> split_lines(std::string_view text);

// The next line of stdin without its end; false at the end. kInvalidFile when it is longer than `bytes_max`.
Result<bool> read_stdin_line(std::string& line, size_t bytes_max = kTextBytesMax);

// A JSON array of messages, or an object with "messages" and perhaps "tools" and "documents".
struct Conversation {
  Json messages;
  Json tools;
  Json documents;
};
Result<Conversation> read_conversation(const std::string& path);
Result<Conversation> parse_conversation(Json json, std::string_view what);

}  // namespace quern::cli
