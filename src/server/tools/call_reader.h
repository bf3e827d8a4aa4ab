// One call as it arrives: an object {"name": …, "arguments": {…}}, or the arguments alone when the name is known.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "server/tools/call_sink.h"
#include "server/tools/json_scanner.h"

namespace quern::tools {

// {"name": "f", "arguments": {…}} in either order; "parameters" says the same as "arguments"; "id" and "type" may be
// there, no other key.
class CallReader {
 public:
  explicit CallReader(CallSink& sink) : sink_(&sink) {}

  enum class Step : uint8_t {
    kMore,
    kDone,    // the object is closed and was a call
    kNoCall,  // it is none: raw() is text, with this character
    kBroken,  // a call that was told already goes on as no JSON; this character is text again
  };
  Step feed(char c, OutputDeltas& out);
  const std::string& raw() const { return raw_; }  // all that was fed, while it may turn out to be text
  bool told() const { return told_; }
  // Whether what was fed may still become a call: its keys and the name of the tool begin as they must.
  bool may_be_call() const;

 private:
  enum class State : uint8_t { kOpen, kFirstKey, kKey, kKeyText, kColon, kValue, kNext };

  Step step(char c, OutputDeltas& out);
  bool begin_value();
  Step value(char c, OutputDeltas& out);
  bool end_value();
  bool close(OutputDeltas& out);
  void tell(OutputDeltas& out);

  CallSink* sink_;
  State state_ = State::kOpen;
  std::string raw_, key_, value_, held_;  // held_: an escape that is not whole yet
  JsonScanner scanner_;
  bool streaming_ = false;  // this value is the arguments of a call that was told
  bool told_ = false;
  std::optional<std::string> name_, arguments_;
};

// The arguments alone: an object. Tells the call with its first brace.
class ArgumentsReader {
 public:
  ArgumentsReader(CallSink& sink, std::string name) : sink_(&sink), name_(std::move(name)) {}
  CallReader::Step feed(char c, OutputDeltas& out);
  const std::string& raw() const { return raw_; }
  bool told() const { return told_; }

 private:
  CallSink* sink_;
  std::string name_, raw_, held_;
  JsonScanner scanner_;
  bool told_ = false;
};

}  // namespace quern::tools
