// Hermes, Qwen 2.5 and 3, and many others:
//   <tool_call>
//   {"name": "f", "arguments": {…}}
//   </tool_call>
#include "server/tools/call_reader.h"
#include "server/tools/formats.h"
#include "server/tools/marker_finder.h"

namespace quern::tools {
namespace {

constexpr std::string_view kOpen = "<tool_call>";
constexpr std::string_view kClose = "</tool_call>";

class HermesParser final : public OutputParser {
 public:
  explicit HermesParser(std::vector<std::string> names) : sink_(std::move(names)) {}

  void push(std::string_view text, OutputDeltas& out) override {
    for (const char c : text) step(c, out);
  }

  void finish(OutputDeltas& out, Ending ending) override {
    std::string rest;
    finder_.flush(rest);
    if (state_ == State::kCall && !reader_.told()) sink_.cut_call(before_ + reader_.raw(), ending, out);
    if (state_ == State::kText) sink_.cut_mark(rest, ending, out);
    sink_.finish(out);
  }

 private:
  enum class State { kText, kCall, kAfter };

  void step(char c, OutputDeltas& out) {
    switch (state_) {
      case State::kText: return text(c, out);
      case State::kCall: return call(c, out);
      case State::kAfter: return after(c, out);
    }
  }

  void text(char c, OutputDeltas& out) {
    std::string plain;
    const bool found = finder_.feed(c, plain).has_value();
    sink_.content(plain, out);
    if (!found) return;
    state_ = State::kCall;
    before_ = kOpen;
    reader_ = CallReader(sink_);
  }

  void call(char c, OutputDeltas& out) {
    if (reader_.raw().empty() && is_blank(c)) {
      before_ += c;
      return;
    }
    switch (reader_.feed(c, out)) {
      case CallReader::Step::kMore: return;
      case CallReader::Step::kDone:
        state_ = State::kAfter;
        closing_.clear();
        return;
      case CallReader::Step::kNoCall: sink_.content(before_ + reader_.raw(), out); break;
      case CallReader::Step::kBroken: sink_.content(std::string(1, c), out); break;
    }
    state_ = State::kText;
  }

  // Blanks and the closing mark; without the mark the text simply goes on.
  void after(char c, OutputDeltas& out) {
    if (closing_.empty() && is_blank(c)) return;
    closing_ += c;
    if (closing_ == kClose) {
      state_ = State::kText;
    } else if (!kClose.starts_with(closing_)) {
      state_ = State::kText;
      for (const char again : std::string(std::move(closing_))) text(again, out);
    }
  }

  CallSink sink_;
  State state_ = State::kText;
  MarkerFinder finder_{{std::string(kOpen)}};
  CallReader reader_{sink_};
  std::string before_, closing_;
};

}  // namespace

std::unique_ptr<OutputParser> make_hermes_parser(std::vector<std::string> names) {
  return std::make_unique<HermesParser>(std::move(names));
}

}  // namespace quern::tools
