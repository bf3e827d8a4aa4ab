// What another engine's server answers to POST /v1/chat/completions, whole or in pieces, as the parts that dialects
// write. Bytes from outside: bounded, and what is no answer is an error.
#pragma once

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "base/json.h"
#include "quern/engine.h"
#include "server/answer_reader.h"
#include "server/api_error.h"

namespace quern::foreign {

// The parser of an answer that its engine has parsed already: gives what it was handed last.
class ParsedAnswer final : public tools::OutputParser {
 public:
  void hand(tools::OutputDeltas deltas) { deltas_ = std::move(deltas); }
  void push(std::string_view, tools::OutputDeltas& out) override { out = std::exchange(deltas_, {}); }
  void finish(tools::OutputDeltas&, tools::Ending) override {}

 private:
  tools::OutputDeltas deltas_;
};

class ChatAnswer {
 public:
  explicit ChatAnswer(const AnswerReaderOptions& options) : ChatAnswer(std::make_unique<ParsedAnswer>(), options) {}

  // A chunk of a stream, a whole answer, or those of POST /v1/completions: what it brings that is new. Errors: what the
  // server says went wrong; status 502 for what is no answer.
  ApiResult<std::vector<PartDelta>> add(const Json& object);

  const AnswerReader& reader() const { return reader_; }
  bool has_ended() const { return has_ended_; }  // it said why it ended
  // With what the server has counted; where it tells no times, as seen from here.
  FinishEvent finish() const;

 private:
  using Clock = std::chrono::steady_clock;

  ChatAnswer(std::unique_ptr<ParsedAnswer> parser, const AnswerReaderOptions& options)
      : parser_(parser.get()), reader_(std::move(parser), options) {}
  ApiResult<void> read_said(const Json& said, tools::OutputDeltas& deltas);
  ApiResult<void> read_call(const Json& call, size_t place, tools::OutputDeltas& deltas);
  void read_counts(const Json& object);

  ParsedAnswer* const parser_;  // the reader's
  AnswerReader reader_;
  FinishEvent finish_;
  bool has_ended_ = false;
  int64_t call_index_ = -1;  // the server's, of the call that goes on
  int32_t calls_ = 0;
  bool in_call_ = false;  // nothing else has come since it began
  size_t bytes_ = 0;
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point first_ = begin_;
};

// An error as another server writes it, in any of the known shapes, or its text as it is. A key that it refuses is the
// launch's, not the client's: 502.
ApiError error_of(const std::string& engine, const std::string& path, int status, std::string_view body);

}  // namespace quern::foreign
