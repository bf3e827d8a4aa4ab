#include "server/door/stream_guard.h"

#include <utility>

namespace quern::door {
namespace {

constexpr size_t kHeldMax = 64 * 1024;

}  // namespace

StreamGuard::StreamGuard(std::string_view content_type) {
  if (content_type.starts_with("text/event-stream")) kind_ = Kind::kEvents;
  if (content_type.starts_with("application/x-ndjson")) kind_ = Kind::kLines;
}

std::string StreamGuard::push(std::string piece) {
  if (kind_ == Kind::kBytes) return piece;
  if (!held_.empty()) piece.insert(0, std::exchange(held_, {}));
  const size_t last_break = piece.rfind('\n');
  const size_t whole = last_break == std::string::npos ? 0 : last_break + 1;
  if (piece.size() - whole < kHeldMax) {
    held_ = piece.substr(whole);
    piece.resize(whole);
  }
  if (piece.empty()) return piece;
  in_line_ = piece.back() != '\n';
  const bool blank =
      piece.ends_with("\n\n") || piece.ends_with("\n\r\n") || ((piece == "\n" || piece == "\r\n") && in_event_);
  in_event_ = !blank;
  return piece;
}

std::string StreamGuard::fail(const ApiError& error, ErrorBody error_event) const {
  if (kind_ == Kind::kBytes) return "";
  std::string text = in_line_ ? "\n" : "";
  if (kind_ == Kind::kEvents && in_event_) text += "\n";
  return text + error_event(error);
}

}  // namespace quern::door
