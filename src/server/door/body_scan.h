// What the door must know of a JSON body, found in one pass over its bytes: no document is built, whatever its size.
// Pure; the views lie in the text that was scanned.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quern::door {

struct BodyScan {
  std::string model;             // the value of `model`, else of `name`, at the top level; unescaped
  std::string_view model_value;  // where it stands, quotes included
  bool stream = false;           // "stream": true
  uint64_t session = 0;          // of `prompt_cache_key`, else `user`; 0: neither
  // Chained hashes of what the prompt begins with, piece by piece of 256 bytes: of tools and system, then of messages,
  // prompt or input. Two requests share as many as their prompts begin alike.
  std::vector<uint64_t> prefix;
};

inline constexpr size_t kPrefixPieceBytes = 256;
inline constexpr size_t kPrefixPiecesMax = 128;

// nullopt: no JSON object, or none that names a model by a string. A text that is no JSON further on may pass: whoever
// reads it says so.
std::optional<BodyScan> scan_body(std::string_view json);

uint64_t session_of(std::string_view text);  // never 0

}  // namespace quern::door
