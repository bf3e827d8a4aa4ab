// What the door must know of a body, JSON or a form, found in one pass over its bytes: no document is built, whatever
// its size. Pure; the views lie in the text that was scanned.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quern/status.h"

namespace quern::door {

struct BodyScan {
  std::string model;                // the value of `model`, else of `name`, at the top level; unescaped
  std::string_view model_value;     // where it stands, quotes included
  bool is_form = false;             // then model_value has no quotes and no escapes
  bool stream = false;              // "stream": true
  bool background = false;          // "background": true, of Responses: the answer comes later
  int64_t output_max = 0;           // of `max_output_tokens`; 0: none
  std::string_view stream_options;  // its value; empty: none
  uint64_t session = 0;             // of `prompt_cache_key`, else `user`; 0: neither
  // Chained hashes of what the prompt begins with, piece by piece of 256 bytes: of tools and system, then of messages,
  // prompt or input. Two requests share as many as their prompts begin alike.
  std::vector<uint64_t> prefix;
  size_t prompt_bytes = 0;  // of all these
};

inline constexpr size_t kPrefixPieceBytes = 256;
inline constexpr size_t kPrefixPiecesMax = 128;

// nullopt: no JSON object, or none that names a model by a string. A text that is no JSON further on may pass: whoever
// reads it says so.
std::optional<BodyScan> scan_body(std::string_view json);

// Of multipart/form-data, as files are sent: by its part `model`. nullopt: it has none. kInvalidArgument for what is no
// form, and for a form that names its model twice, by a file, or by what can be no name.
Result<std::optional<BodyScan>> scan_form(std::string_view content_type, std::string_view body);

uint64_t session_of(std::string_view text);  // never 0

}  // namespace quern::door
