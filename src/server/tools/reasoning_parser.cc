#include "server/tools/reasoning_parser.h"

#include <utility>

#include "server/tools/call_sink.h"

namespace quern::tools {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

class PlainParser final : public OutputParser {
 public:
  void push(std::string_view text, OutputDeltas& out) override {
    if (!text.empty()) out.push_back({.kind = OutputDelta::Kind::kContent, .text = std::string(text)});
  }
  void finish(OutputDeltas&, Ending) override {}
};

class ReasoningParser final : public OutputParser {
 public:
  ReasoningParser(ReasoningMarks marks, bool open_in_prompt, std::unique_ptr<OutputParser> next)
      : marks_(std::move(marks)), state_(open_in_prompt ? State::kReasoning : State::kBegin), next_(std::move(next)) {}

  void push(std::string_view text, OutputDeltas& out) override {
    held_ += text;
    if (state_ == State::kBegin) begin(out);
    if (state_ == State::kReasoning) reasoning(out);
    if (state_ == State::kBlanks) {
      held_.erase(0, std::min(held_.find_first_not_of(kBlanks), held_.size()));
      if (!held_.empty()) state_ = State::kAfter;
    }
    if (state_ == State::kAfter) next_->push(std::exchange(held_, {}), out);
  }

  void finish(OutputDeltas& out, Ending ending) override {
    if (state_ == State::kBegin) next_->push(held_, out);
    if (state_ == State::kReasoning) {
      const size_t end = held_.find_last_not_of(kBlanks);
      tell(std::string_view(held_).substr(0, end == std::string::npos ? 0 : end + 1), out);
    }
    next_->finish(out, ending);
  }

 private:
  enum class State { kBegin, kReasoning, kBlanks, kAfter };

  void begin(OutputDeltas&) {
    const size_t word = held_.find_first_not_of(kBlanks);
    if (word == std::string::npos) return;
    const std::string_view text = std::string_view(held_).substr(word);
    if (text.starts_with(marks_.open)) {
      held_.erase(0, word + marks_.open.size());
      state_ = State::kReasoning;
    } else if (!std::string_view(marks_.open).starts_with(text)) {
      state_ = State::kAfter;
    }
  }

  // Blanks around the reasoning belong to the format.
  void reasoning(OutputDeltas& out) {
    if (!said_) {
      held_.erase(0, std::min(held_.find_first_not_of(kBlanks), held_.size()));
      if (held_.empty()) return;
    }
    const size_t close = held_.find(marks_.close);
    const bool closed = close != std::string::npos;
    std::string_view sayable = std::string_view(held_).substr(0, closed ? close : held_.size());
    if (!closed) sayable.remove_suffix(partial_marker(held_, marks_.close));
    const size_t end = sayable.find_last_not_of(kBlanks);
    sayable = sayable.substr(0, end == std::string_view::npos ? 0 : end + 1);
    tell(sayable, out);
    held_.erase(0, closed ? close + marks_.close.size() : sayable.size());
    if (closed) state_ = State::kBlanks;
  }

  void tell(std::string_view text, OutputDeltas& out) {
    if (text.empty()) return;
    said_ = true;
    out.push_back({.kind = OutputDelta::Kind::kReasoning, .text = std::string(text)});
  }

  ReasoningMarks marks_;
  State state_;
  std::unique_ptr<OutputParser> next_;
  std::string held_;
  bool said_ = false;
};

}  // namespace

std::unique_ptr<OutputParser> make_plain_parser() {
  return std::make_unique<PlainParser>();
}

std::unique_ptr<OutputParser> make_reasoning_parser(ReasoningMarks marks, bool open_in_prompt,
                                                    std::unique_ptr<OutputParser> next) {
  if (marks.close.empty()) return next;
  return std::make_unique<ReasoningParser>(std::move(marks), open_in_prompt, std::move(next));
}

}  // namespace quern::tools
