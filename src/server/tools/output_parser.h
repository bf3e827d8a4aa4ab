// From the text of an answer to its parts: content, reasoning, tool calls. One parser per answer; text comes in pieces
// and it does not matter where it is cut.
//
//   model's text ──▶ ReasoningParser ──▶ a format's parser (hermes, llama3_json, mistral, …) ──▶ OutputDelta…
//
// A call is told as soon as it is one: its name is among the tools and its arguments begin as an object. What only
// looks like a call, or is malformed before that point, is content, character by character as the model wrote it. A
// call that a limit cut before that point is not told at all.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace quern::tools {

struct OutputDelta {
  enum class Kind : uint8_t { kContent, kReasoning, kCall, kArguments };
  Kind kind = Kind::kContent;
  std::string text;   // of a kCall the name; of kArguments a piece of JSON
  int32_t call = -1;  // of kCall and kArguments: which one, from 0
};
using OutputDeltas = std::vector<OutputDelta>;

enum class Ending : uint8_t {
  kWhole,  // the model came to its end
  kCut,    // a limit ended it: what was on the way to be a call, and did not become one, is no content
};

class OutputParser {
 public:
  virtual ~OutputParser() = default;
  virtual void push(std::string_view text, OutputDeltas& out) = 0;
  virtual void finish(OutputDeltas& out, Ending ending) = 0;  // the answer is over; once, push nothing more
};

enum class ToolFormat : uint8_t {
  kNone,  // no calls are looked for
  kHermes,
  kLlama3Json,
  kMistral,
  kDeepSeek,
  kHarmony,
  kPythonic,
  kJson,
};

// `names`: the tools of the request; another name is no call. With kHarmony the reasoning is split as well.
std::unique_ptr<OutputParser> make_tool_parser(ToolFormat format, std::vector<std::string> names);

}  // namespace quern::tools
