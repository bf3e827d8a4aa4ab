// Calls as Python writes them: [f(a=1, b="x"), g()] as the whole answer (Llama 3.2 and 4), or Gemma's
//   ```tool_code
//   f(a=1)
//   ```
// A call is told when it is whole: its arguments have to be rewritten as JSON. An answer that begins with a brace, or a
// list of objects, is read as bare JSON.
#include <utility>

#include "server/tools/call_sink.h"
#include "server/tools/formats.h"
#include "server/tools/python_literals.h"

namespace quern::tools {
namespace {

constexpr std::string_view kPythonFence = "```tool_code";
constexpr size_t kHeldMax = 256u << 10;

class PythonicParser final : public OutputParser {
 public:
  explicit PythonicParser(std::vector<std::string> names) : names_(names), sink_(std::move(names)) {}

  void push(std::string_view text, OutputDeltas& out) override {
    if (json_) return json_->push(text, out);
    if (text_) return sink_.content(text, out);
    held_ += text;
    if (!may_be_calls()) {
      text_ = true;
      if (!begins_json()) return sink_.content(std::exchange(held_, {}), out);
      json_ = make_json_parser(names_, {});
      json_->push(std::exchange(held_, {}), out);
    }
  }

  void finish(OutputDeltas& out, Ending ending) override {
    if (json_) return json_->finish(out, ending);
    if (!text_) tell(ending, out);
    sink_.finish(out);
  }

 private:
  // Whether what is held so far is the beginning of calls, or may become it.
  bool may_be_calls() const {
    if (held_.size() > kHeldMax) return false;
    const size_t begin = held_.find_first_not_of(" \t\r\n");
    if (begin == std::string::npos) return true;
    const std::string_view text = std::string_view(held_).substr(begin);
    if (text[0] == '`') return text.substr(0, kPythonFence.size()) == kPythonFence.substr(0, text.size());
    if (text[0] != '[') return false;
    const size_t name = text.find_first_not_of(" \t\r\n", 1);
    if (name == std::string_view::npos) return true;
    const size_t after =
        text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-", name);
    if (after == name) return false;
    return after == std::string_view::npos || text[after] == '(';
  }

  bool begins_json() const {
    const size_t begin = held_.find_first_not_of(" \t\r\n");
    if (held_[begin] == '{') return true;
    if (held_[begin] != '[') return false;
    const size_t next = held_.find_first_not_of(" \t\r\n", begin + 1);
    return next != std::string::npos && held_[next] == '{';
  }

  // Whether `source` ends inside its first call: behind a tool's name, or in what may become one.
  bool is_cut_call(std::string_view source) const {
    source.remove_prefix(std::min(source.find_first_not_of("[ \t\r\n"), source.size()));
    const size_t end = source.find('(');
    if (end != std::string_view::npos) return sink_.knows(source.substr(0, end));
    return !source.empty() && sink_.may_name(source);
  }

  void tell(Ending ending, OutputDeltas& out) {
    std::string_view source = held_;
    source.remove_prefix(std::min(source.find_first_not_of(" \t\r\n"), source.size()));
    std::string_view rest;
    const bool is_fenced = source.starts_with(kPythonFence);
    if (source.starts_with(kPythonFence)) {
      source.remove_prefix(kPythonFence.size());
      const size_t end = source.find("```");
      if (end != std::string_view::npos) {
        rest = source.substr(end + 3);
        source = source.substr(0, end);
      } else {
        source = source.substr(0, source.find_last_not_of('`') + 1);  // a limit may cut the fence
      }
    }
    const auto calls = parse_python_calls(source);
    if (ending == Ending::kCut && calls && calls->empty() && (is_fenced || is_cut_call(source))) return;
    if (ending == Ending::kCut && source.starts_with('`') && kPythonFence.starts_with(source)) {
      return sink_.cut_mark(held_, ending, out);
    }
    const auto known = [this](const PythonCall& call) { return sink_.knows(call.name); };
    if (!calls || calls->empty() || !std::ranges::all_of(*calls, known)) return sink_.content(held_, out);
    for (const PythonCall& call : *calls) {
      sink_.call(call.name, out);
      sink_.arguments(dump_json(call.arguments), out);
    }
    sink_.content(rest, out);
  }

  std::vector<std::string> names_;
  CallSink sink_;
  std::unique_ptr<OutputParser> json_;
  std::string held_;
  bool text_ = false;
};

}  // namespace

std::unique_ptr<OutputParser> make_pythonic_parser(std::vector<std::string> names) {
  return std::make_unique<PythonicParser>(std::move(names));
}

}  // namespace quern::tools
