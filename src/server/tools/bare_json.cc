// A call and nothing else, as JSON: {"name": "f", "arguments": {…}}, several of them one after the other, separated by
// blanks, commas or semicolons, or in a list. Only an answer that begins so is looked at.
#include <utility>

#include "server/tools/call_reader.h"
#include "server/tools/formats.h"

namespace quern::tools {
namespace {

class BareJsonParser final : public OutputParser {
 public:
  BareJsonParser(std::vector<std::string> names, std::vector<std::string> tags)
      : sink_(std::move(names)), tags_(std::move(tags)) {}

  void push(std::string_view text, OutputDeltas& out) override {
    for (const char c : text) step(c, out);
  }

  void finish(OutputDeltas& out, Ending ending) override {
    if (state_ == State::kBegin) sink_.cut_mark(before_, tag_.empty() ? Ending::kWhole : ending, out);
    if (state_ == State::kBetween && sink_.calls() == 0) sink_.content(before_, out);
    if (state_ == State::kCall && !reader_.told()) {
      // No mark says that this is a call: an answer that is JSON begins alike.
      sink_.cut_call(before_ + reader_.raw(), reader_.may_be_call() ? ending : Ending::kWhole, out);
    }
    sink_.finish(out);
  }

 private:
  enum class State { kBegin, kBetween, kCall, kText };

  void step(char c, OutputDeltas& out) {
    switch (state_) {
      case State::kBegin: return begin(c, out);
      case State::kBetween: return between(c, out);
      case State::kCall: return call(c, out);
      case State::kText: return sink_.content(std::string(1, c), out);
    }
  }

  // Blanks, perhaps one of the tags, then a brace or a bracket.
  void begin(char c, OutputDeltas& out) {
    before_ += c;
    if (tag_.empty() && is_blank(c)) return;
    if (c == '{' && tag_whole()) return open(c, out);
    if (c == '[' && tag_whole()) {
      in_list_ = true;
      state_ = State::kBetween;
      return;
    }
    if (tag_whole() && is_blank(c)) return;
    tag_ += c;
    for (const std::string& tag : tags_) {
      if (tag.starts_with(tag_)) return;
    }
    give_up(out);
  }

  bool tag_whole() const { return tag_.empty() || std::ranges::find(tags_, tag_) != tags_.end(); }

  void open(char c, OutputDeltas& out) {
    if (!before_.empty()) before_.pop_back();
    state_ = State::kCall;
    reader_ = CallReader(sink_);
    call(c, out);
  }

  void between(char c, OutputDeltas& out) {
    before_ += c;
    if (c == '{') return open(c, out);
    if (c == ']' && in_list_ && sink_.calls() > 0) {
      in_list_ = false;
      return;
    }
    if (is_blank(c) || (sink_.calls() > 0 && (c == ',' || c == ';'))) return;
    give_up(out);
  }

  void call(char c, OutputDeltas& out) {
    switch (reader_.feed(c, out)) {
      case CallReader::Step::kMore: return;
      case CallReader::Step::kDone:
        state_ = State::kBetween;
        before_.clear();
        return;
      case CallReader::Step::kNoCall: before_ += reader_.raw(); return give_up(out);
      case CallReader::Step::kBroken: before_ = c; return give_up(out);
    }
  }

  void give_up(OutputDeltas& out) {
    state_ = State::kText;
    sink_.content(std::exchange(before_, {}), out);
  }

  CallSink sink_;
  std::vector<std::string> tags_;
  State state_ = State::kBegin;
  CallReader reader_{sink_};
  std::string before_, tag_;
  bool in_list_ = false;
};

}  // namespace

std::unique_ptr<OutputParser> make_json_parser(std::vector<std::string> names, std::vector<std::string> tags) {
  return std::make_unique<BareJsonParser>(std::move(names), std::move(tags));
}

}  // namespace quern::tools
