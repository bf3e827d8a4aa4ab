// One answer of a chat on its way to a client, in its parts: reasoning, text and tool calls, in the order in which the
// model wrote them. Dialects write the parts in their own shapes, in pieces or whole; both come from here and agree.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "quern/engine.h"
#include "server/tools/output_parser.h"

namespace quern {

struct AnswerReaderOptions {
  bool parallel_calls = true;  // false: one call, further ones are dropped
  bool include_reasoning = true;
  bool short_call_ids = false;  // nine letters and digits, as Mistral's templates want them
  const char* call_id_prefix = "call_";
};

struct AnswerPart {
  enum class Kind : uint8_t { kReasoning, kText, kCall };
  Kind kind = Kind::kText;
  std::string text;  // of a call: its arguments, JSON text of an object unless the answer was cut
  std::string call_id, name;
};

// A piece of a part. A part is over when another one begins, or with the answer.
struct PartDelta {
  size_t part = 0;      // of AnswerReader::parts()
  bool begins = false;  // the first piece of its part; a call's has no text
  std::string text;
};

class AnswerReader {
 public:
  AnswerReader(std::unique_ptr<tools::OutputParser> parser, const AnswerReaderOptions& options)
      : parser_(std::move(parser)), options_(options) {}

  std::vector<PartDelta> push(std::string_view text);
  std::vector<PartDelta> finish(FinishReason reason);  // once, push nothing more

  const std::vector<AnswerPart>& parts() const { return parts_; }
  bool has_calls() const { return calls_ > 0; }

 private:
  std::vector<PartDelta> take(const tools::OutputDeltas& deltas);
  PartDelta begin_call(const std::string& name);
  PartDelta append(AnswerPart::Kind kind, const std::string& text);

  std::unique_ptr<tools::OutputParser> parser_;
  AnswerReaderOptions options_;
  std::vector<AnswerPart> parts_;
  int32_t calls_ = 0;
};

}  // namespace quern
