// One answer of a chat as OpenAI writes it: content, reasoning and tool calls, in deltas or as a message.
#pragma once

#include <string_view>
#include <vector>

#include "base/json.h"
#include "server/answer_reader.h"

namespace quern::openai {

using ChatReaderOptions = AnswerReaderOptions;

class ChatReader {
 public:
  ChatReader(std::unique_ptr<tools::OutputParser> parser, const ChatReaderOptions& options)
      : reader_(std::move(parser), options) {}

  // The `delta` objects that the text amounts to, in order; they are part of message() as well.
  std::vector<Json> push(std::string_view text) { return written(reader_.push(text)); }
  std::vector<Json> finish(FinishReason reason) { return written(reader_.finish(reason)); }

  bool has_calls() const { return reader_.has_calls(); }
  // {"role","content"[,"reasoning_content","reasoning"][,"tool_calls"]}; content is null when there are only calls.
  Json message() const;

 private:
  std::vector<Json> written(const std::vector<PartDelta>& deltas);

  AnswerReader reader_;
  int32_t calls_ = 0;  // that were written
};

}  // namespace quern::openai
