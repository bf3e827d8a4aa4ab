// What a client gets of a stream: whole lines, as soon as they are whole, and a word when the rest does not come. Pure.
#pragma once

#include <string>
#include <string_view>

#include "server/api_error.h"
#include "server/http/message.h"
#include "server/route.h"

namespace quern::door {

class StreamGuard {
 public:
  // By the content type: events and lines are kept whole, anything else passes as it comes.
  explicit StreamGuard(std::string_view content_type);

  // What to send now that `piece` has come: all up to its last line break. A line over 64 KiB is sent in pieces.
  std::string push(std::string piece);
  // What is left at the regular end.
  std::string finish() { return std::move(held_); }
  // An end by `error`, in the words of `error_event`; what was held is dropped. Empty where a stream has no words for
  // it: then it must be broken off.
  std::string fail(const ApiError& error, ErrorBody error_event) const;

 private:
  enum class Kind : uint8_t { kEvents, kLines, kBytes };
  Kind kind_ = Kind::kBytes;
  std::string held_;
  bool in_event_ = false;  // the last line that was sent is not empty
  bool in_line_ = false;   // the last byte that was sent is no line break
};

}  // namespace quern::door
