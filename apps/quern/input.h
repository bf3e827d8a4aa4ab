// What commands read from their caller: lists of ids, files of text and messages. Every error is kInvalidArgument and
// names the option or the file.
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

// "ID=BIAS", "ID:BIAS" or "ID+BIAS" / "ID-BIAS".
Result<std::pair<int32_t, float>> parse_logit_bias(std::string_view option, std::string_view text);

// The whole file; "-" is stdin.
Result<std::string> read_text(const std::string& path);

// A JSON array of messages, or an object with "messages" and perhaps "tools" and "documents".
struct Conversation {
  Json messages;
  Json tools;
  Json documents;
};
Result<Conversation> read_conversation(const std::string& path);
Result<Conversation> parse_conversation(Json json, std::string_view what);

}  // namespace quern::cli
