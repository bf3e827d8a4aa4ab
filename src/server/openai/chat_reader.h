// One answer of a chat on its way to the wire: content, reasoning and tool calls as OpenAI writes them, in deltas or as
// a message.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "server/tools/output_parser.h"

namespace quern::openai {

struct ChatReaderOptions {
  bool parallel_calls = true;  // false: one call, further ones are dropped
  bool include_reasoning = true;
  bool short_call_ids = false;  // nine letters and digits, as Mistral's templates want them
};

class ChatReader {
 public:
  ChatReader(std::unique_ptr<tools::OutputParser> parser, const ChatReaderOptions& options)
      : parser_(std::move(parser)), options_(options) {}

  // The `delta` objects that the text amounts to, in order; they are part of message() as well.
  std::vector<Json> push(std::string_view text);
  std::vector<Json> finish();

  bool has_calls() const { return !calls_.empty(); }
  // {"role","content"[,"reasoning_content","reasoning"][,"tool_calls"]}; content is null when there are only calls.
  Json message() const;

 private:
  std::vector<Json> take(const tools::OutputDeltas& deltas);

  std::unique_ptr<tools::OutputParser> parser_;
  ChatReaderOptions options_;
  std::string content_, reasoning_;
  std::vector<Json> calls_;
};

}  // namespace quern::openai
