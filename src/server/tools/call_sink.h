// What parsers of tool calls share: how deltas are written.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "server/tools/output_parser.h"

namespace quern::tools {

class CallSink {
 public:
  explicit CallSink(std::vector<std::string> names) : names_(std::move(names)) {}

  bool knows(std::string_view name) const { return std::ranges::find(names_, name) != names_.end(); }
  int32_t calls() const { return calls_; }

  // Blanks before and between calls are no content: they wait for a word to follow.
  void content(std::string_view text, OutputDeltas& out) {
    blanks_ += text;
    const size_t end = blanks_.find_last_not_of(" \t\r\n");
    if (end == std::string::npos) return;
    append(OutputDelta::Kind::kContent, -1, std::string_view(blanks_).substr(0, end + 1), out);
    said_since_call_ = true;
    blanks_.erase(0, end + 1);
  }
  // Whether a tool's name begins so.
  bool may_name(std::string_view begin) const {
    return std::ranges::any_of(names_, [&](const std::string& name) { return name.starts_with(begin); });
  }

  // The answer ended inside what may have been a call, or a mark before one. Behind a call it was to be another:
  // nothing to show. With no call before, it is what the model wrote, unless a limit cut it.
  void cut_call(std::string_view text, Ending ending, OutputDeltas& out) {
    if (calls_ == 0 && ending == Ending::kWhole) return content(text, out);
    blanks_.clear();
  }
  void cut_mark(std::string_view text, Ending ending, OutputDeltas& out) {
    const bool is_cut = ending == Ending::kCut && text.size() >= kMarkBytesMin;
    if ((calls_ == 0 && !is_cut) || said_since_call_) return content(text, out);
    blanks_.clear();
  }
  void reasoning(std::string_view text, OutputDeltas& out) { append(OutputDelta::Kind::kReasoning, -1, text, out); }
  void call(std::string_view name, OutputDeltas& out) {
    blanks_.clear();
    said_since_call_ = false;
    out.push_back({.kind = OutputDelta::Kind::kCall, .text = std::string(name), .call = calls_++});
  }
  void arguments(std::string_view text, OutputDeltas& out) {
    append(OutputDelta::Kind::kArguments, calls_ - 1, text, out);
  }
  void finish(OutputDeltas& out) {
    if (calls_ == 0) append(OutputDelta::Kind::kContent, -1, blanks_, out);
    blanks_.clear();
  }

 private:
  // So much of a mark is not written by chance: "<" may be a comparison, "<too" is not.
  static constexpr size_t kMarkBytesMin = 4;

  static void append(OutputDelta::Kind kind, int32_t call, std::string_view text, OutputDeltas& out) {
    if (text.empty()) return;
    if (!out.empty() && out.back().kind == kind && out.back().call == call) {
      out.back().text += text;
    } else {
      out.push_back({.kind = kind, .text = std::string(text), .call = call});
    }
  }

  std::vector<std::string> names_;
  std::string blanks_;
  int32_t calls_ = 0;
  bool said_since_call_ = false;
};

// Length of the longest end of `text` that is a proper beginning of `marker`.
inline size_t partial_marker(std::string_view text, std::string_view marker) {
  for (size_t length = std::min(text.size(), marker.size() - 1); length > 0; --length) {
    if (text.ends_with(marker.substr(0, length))) return length;
  }
  return 0;
}

}  // namespace quern::tools
