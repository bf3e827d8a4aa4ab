// DeepSeek V3 and R1:
//   <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f
//   ```json
//   {…}
//   ```<｜tool▁call▁end｜>…<｜tool▁calls▁end｜>
// DeepSeek V3.1: <｜tool▁call▁begin｜>f<｜tool▁sep｜>{…}<｜tool▁call▁end｜>
#include <optional>

#include "server/tools/call_reader.h"
#include "server/tools/formats.h"
#include "server/tools/marker_finder.h"

namespace quern::tools {
namespace {

constexpr std::string_view kSeparator = "<｜tool▁sep｜>";
constexpr std::string_view kFence = "```json";
constexpr size_t kCallBegin = 0, kCallsBegin = 2;  // in the list of marks

class DeepSeekParser final : public OutputParser {
 public:
  explicit DeepSeekParser(std::vector<std::string> names) : sink_(std::move(names)) {}

  void push(std::string_view text, OutputDeltas& out) override {
    for (const char c : text) step(c, out);
  }

  void finish(OutputDeltas& out, Ending ending) override {
    std::string rest;
    finder_.flush(rest);
    if (state_ == State::kHead) sink_.cut_call(before_, ending, out);
    if (state_ == State::kText && opened_) sink_.cut_call(rest, ending, out);
    if (state_ == State::kText && !opened_) sink_.cut_mark(rest, ending, out);
    sink_.finish(out);
  }

 private:
  enum class State { kText, kHead, kArguments, kAfter };

  void step(char c, OutputDeltas& out) {
    switch (state_) {
      case State::kText: return text(c, out);
      case State::kHead: return head(c, out);
      case State::kArguments: return arguments(c, out);
      case State::kAfter: return after(c, out);
    }
  }

  void text(char c, OutputDeltas& out) {
    std::string plain;
    const auto found = finder_.feed(c, plain);
    sink_.content(plain, out);
    if (plain.find_first_not_of(" \t\r\n") != std::string::npos) opened_ = false;
    if (found == kCallsBegin) opened_ = true;
    if (found == kCallBegin) begin_call();
  }

  void begin_call() {
    state_ = State::kHead;
    before_ = kMarks[kCallBegin];
    head_.clear();
  }

  void head(char c, OutputDeltas& out) {
    before_ += c;
    if (c != '{') {
      head_ += c;
      if (head_.size() > kHeadMax) give_up(out);
      return;
    }
    const size_t separator = head_.find(kSeparator);
    if (separator == std::string::npos) return give_up(out);
    std::string name = head_.substr(0, separator);
    std::string rest = trimmed(head_.substr(separator + kSeparator.size()));
    if (rest.ends_with(kFence)) {
      rest.resize(rest.size() - kFence.size());
      name = trimmed(std::move(rest));
      rest.clear();
    }
    name = trimmed(std::move(name));
    if (!rest.empty() || !sink_.knows(name)) return give_up(out);
    before_.clear();
    arguments_.emplace(sink_, std::move(name));
    state_ = State::kArguments;
    step(c, out);
  }

  void arguments(char c, OutputDeltas& out) {
    switch (arguments_->feed(c, out)) {
      case CallReader::Step::kMore: return;
      case CallReader::Step::kDone: state_ = State::kAfter; return;
      case CallReader::Step::kNoCall:
      case CallReader::Step::kBroken: break;
    }
    before_ = c;
    give_up(out);
  }

  // The end of the fence and of the call; anything up to the next mark that is not text.
  void after(char c, OutputDeltas& out) {
    std::string plain;
    const auto found = finder_.feed(c, plain);
    if (found == kCallBegin) return begin_call();
    if (found) state_ = State::kText;
    if (plain.find_first_not_of("` \t\r\n") == std::string::npos) return;
    state_ = State::kText;
    sink_.content(plain, out);
  }

  static std::string trimmed(std::string text) {
    while (!text.empty() && is_blank(text.back())) text.pop_back();
    text.erase(0, std::min(text.find_first_not_of(" \t\r\n"), text.size()));
    return text;
  }

  void give_up(OutputDeltas& out) {
    state_ = State::kText;
    sink_.content(before_, out);
  }

  inline static const std::vector<std::string> kMarks = {"<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>",
                                                         "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"};
  CallSink sink_;
  State state_ = State::kText;
  MarkerFinder finder_{kMarks};
  std::optional<ArgumentsReader> arguments_;
  std::string before_, head_;
  bool opened_ = false;  // calls were announced and nothing else was said yet
};

}  // namespace

std::unique_ptr<OutputParser> make_deepseek_parser(std::vector<std::string> names) {
  return std::make_unique<DeepSeekParser>(std::move(names));
}

}  // namespace quern::tools
