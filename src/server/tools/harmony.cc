// gpt-oss ("harmony"): an answer is a row of messages, each with a channel.
//   <|channel|>analysis<|message|>reasoning<|end|><|start|>assistant<|channel|>commentary to=functions.f
//   <|constrain|>json<|message|>{…}<|call|>      or      …<|channel|>final<|message|>content<|return|>
#include <optional>
#include <utility>

#include "server/tools/call_reader.h"
#include "server/tools/formats.h"
#include "server/tools/marker_finder.h"

namespace quern::tools {
namespace {

constexpr std::string_view kRecipient = "to=functions.";

class HarmonyParser final : public OutputParser {
 public:
  explicit HarmonyParser(std::vector<std::string> names) : sink_(std::move(names)) {}

  void push(std::string_view text, OutputDeltas& out) override {
    for (const char c : text) step(c, out);
  }

  void finish(OutputDeltas& out, Ending ending) override {
    std::string rest;
    finder_.flush(rest);
    if (state_ == State::kContent) {
      sink_.cut_mark(rest, ending, out);
    } else if (!seen_head_ && !rest.empty()) {
      sink_.cut_mark(head_ + rest, ending, out);
    } else if (ending == Ending::kWhole) {
      body(rest, out);
    }
    sink_.finish(out);
  }

 private:
  enum Mark : size_t { kChannel, kMessage, kStart, kEnd, kCall, kReturn, kConstrain };
  enum class State { kHead, kReasoning, kContent, kArguments };

  void step(char c, OutputDeltas& out) {
    std::string plain;
    const auto mark = finder_.feed(c, plain);
    body(plain, out);
    if (!mark) return;
    switch (*mark) {
      case kMessage: return begin_body();
      case kStart:
      case kEnd:
      case kCall:
      case kReturn:
        state_ = State::kHead;
        seen_head_ = true;
        head_.clear();
        return;
      default:
        head_ += ' ';
        seen_head_ = true;
        return;
    }
  }

  void begin_body() {
    seen_head_ = true;
    state_ = head_.find("analysis") != std::string::npos ? State::kReasoning : State::kContent;
    const size_t at = head_.find(kRecipient);
    if (at == std::string::npos) return;
    std::string name = head_.substr(at + kRecipient.size());
    name.resize(std::min(name.find_first_of(" \t\r\n"), name.size()));
    if (!sink_.knows(name)) return;
    state_ = State::kArguments;
    arguments_.emplace(sink_, std::move(name));
    ended_ = false;
  }

  void body(const std::string& text, OutputDeltas& out) {
    switch (state_) {
      case State::kHead:
        // A model that writes no channels at all writes content.
        head_ += text;
        if (!seen_head_ && !head_.empty() && head_.find_first_not_of(" \t\r\n") != std::string::npos) {
          state_ = State::kContent;
          sink_.content(std::exchange(head_, {}), out);
        }
        if (head_.size() > kHeadMax) head_.resize(kHeadMax);
        return;
      case State::kReasoning: return sink_.reasoning(text, out);
      case State::kContent: return sink_.content(text, out);
      case State::kArguments: break;
    }
    for (size_t i = 0; i < text.size(); ++i) {
      if (ended_) return;  // blanks behind the object
      const CallReader::Step step = arguments_->feed(text[i], out);
      if (step == CallReader::Step::kMore) continue;
      ended_ = step == CallReader::Step::kDone;
      if (ended_) continue;
      state_ = State::kContent;
      sink_.content(step == CallReader::Step::kNoCall ? arguments_->raw() + text.substr(i + 1) : text.substr(i), out);
      return;
    }
  }

  CallSink sink_;
  State state_ = State::kHead;
  bool seen_head_ = false, ended_ = false;
  MarkerFinder finder_{
      {"<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|call|>", "<|return|>", "<|constrain|>"}};
  std::optional<ArgumentsReader> arguments_;
  std::string head_;
};

}  // namespace

std::unique_ptr<OutputParser> make_harmony_parser(std::vector<std::string> names) {
  return std::make_unique<HarmonyParser>(std::move(names));
}

}  // namespace quern::tools
