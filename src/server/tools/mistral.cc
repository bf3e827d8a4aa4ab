// Mistral:
//   [TOOL_CALLS][{"name": "f", "arguments": {…}}, …]           and since 2025
//   [TOOL_CALLS]f[ARGS]{…}[TOOL_CALLS]g[CALL_ID]abc[ARGS]{…}
#include <optional>

#include "server/tools/call_reader.h"
#include "server/tools/formats.h"
#include "server/tools/marker_finder.h"

namespace quern::tools {
namespace {

constexpr std::string_view kMark = "[TOOL_CALLS]";

class MistralParser final : public OutputParser {
 public:
  explicit MistralParser(std::vector<std::string> names) : sink_(std::move(names)) {}

  void push(std::string_view text, OutputDeltas& out) override {
    for (const char c : text) step(c, out);
  }

  void finish(OutputDeltas& out, Ending ending) override {
    std::string rest;
    finder_.flush(rest);
    if (state_ == State::kHead || (state_ == State::kList && list_calls_ == 0)) sink_.cut_call(before_, ending, out);
    if (state_ == State::kCall && !reader_.told()) sink_.cut_call(before_ + reader_.raw(), ending, out);
    if (state_ == State::kText) sink_.cut_mark(rest, ending, out);
    sink_.finish(out);
  }

 private:
  enum class State { kText, kHead, kList, kCall, kArguments };

  void step(char c, OutputDeltas& out) {
    switch (state_) {
      case State::kText: return text(c, out);
      case State::kHead: return head(c, out);
      case State::kList: return list(c, out);
      case State::kCall: return reading(reader_.feed(c, out), reader_.raw(), c, State::kList, out);
      case State::kArguments: return reading(arguments_->feed(c, out), arguments_->raw(), c, State::kText, out);
    }
  }

  void text(char c, OutputDeltas& out) {
    std::string plain;
    const bool found = finder_.feed(c, plain).has_value();
    sink_.content(plain, out);
    if (!found) return;
    state_ = State::kHead;
    before_ = kMark;
    head_.clear();
  }

  // A list, or a name up to its arguments.
  void head(char c, OutputDeltas& out) {
    before_ += c;
    if (head_.empty() && is_blank(c)) return;
    if (head_.empty() && c == '[') {
      state_ = State::kList;
      list_calls_ = 0;
      return;
    }
    if (c != '{') {
      head_ += c;
      if (head_.size() > kHeadMax) give_up(out);
      return;
    }
    std::string name = head_.substr(0, head_.find('['));
    while (!name.empty() && is_blank(name.back())) name.pop_back();
    if (!sink_.knows(name)) return give_up(out);
    before_.clear();
    arguments_.emplace(sink_, std::move(name));
    state_ = State::kArguments;
    step(c, out);
  }

  void list(char c, OutputDeltas& out) {
    before_ += c;
    if (c == '{') {
      before_.pop_back();
      state_ = State::kCall;
      reader_ = CallReader(sink_);
      return step(c, out);
    }
    if (is_blank(c) || (c == ',' && list_calls_ > 0)) return;
    if (c != ']' || list_calls_ == 0) return give_up(out);
    before_.clear();
    state_ = State::kText;
  }

  void reading(CallReader::Step step, const std::string& raw, char c, State next, OutputDeltas& out) {
    switch (step) {
      case CallReader::Step::kMore: return;
      case CallReader::Step::kDone:
        ++list_calls_;
        before_.clear();
        state_ = next;
        return;
      case CallReader::Step::kNoCall: before_ += raw; return give_up(out);
      case CallReader::Step::kBroken: before_ = c; return give_up(out);
    }
  }

  void give_up(OutputDeltas& out) {
    state_ = State::kText;
    sink_.content(before_, out);
  }

  CallSink sink_;
  State state_ = State::kText;
  MarkerFinder finder_{{std::string(kMark)}};
  CallReader reader_{sink_};
  std::optional<ArgumentsReader> arguments_;
  std::string before_, head_;
  int32_t list_calls_ = 0;
};

}  // namespace

std::unique_ptr<OutputParser> make_mistral_parser(std::vector<std::string> names) {
  return std::make_unique<MistralParser>(std::move(names));
}

}  // namespace quern::tools
