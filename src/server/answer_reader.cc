#include "server/answer_reader.h"

#include <random>

#include "base/check.h"

namespace quern {
namespace {

std::string make_call_id(const AnswerReaderOptions& options) {
  thread_local std::mt19937_64 generator{std::random_device{}()};
  constexpr std::string_view kLetters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  std::string id = options.short_call_ids ? "" : options.call_id_prefix;
  for (int i = 0; i < (options.short_call_ids ? 9 : 24); ++i) id += kLetters[generator() % kLetters.size()];
  return id;
}

}  // namespace

PartDelta AnswerReader::begin_call(const std::string& name) {
  parts_.push_back({.kind = AnswerPart::Kind::kCall, .text = "", .call_id = make_call_id(options_), .name = name});
  ++calls_;
  return {.part = parts_.size() - 1, .begins = true, .text = ""};
}

PartDelta AnswerReader::append(AnswerPart::Kind kind, const std::string& text) {
  const bool begins = parts_.empty() || parts_.back().kind != kind;
  if (begins) parts_.push_back({.kind = kind, .text = "", .call_id = "", .name = ""});
  parts_.back().text += text;
  return {.part = parts_.size() - 1, .begins = begins, .text = text};
}

std::vector<PartDelta> AnswerReader::take(const tools::OutputDeltas& deltas) {
  using Kind = tools::OutputDelta::Kind;
  std::vector<PartDelta> result;
  for (const tools::OutputDelta& delta : deltas) {
    const bool is_call = delta.kind == Kind::kCall || delta.kind == Kind::kArguments;
    if (is_call && !options_.parallel_calls && delta.call > 0) continue;
    switch (delta.kind) {
      case Kind::kContent: result.push_back(append(AnswerPart::Kind::kText, delta.text)); break;
      case Kind::kReasoning:
        if (options_.include_reasoning) result.push_back(append(AnswerPart::Kind::kReasoning, delta.text));
        break;
      case Kind::kCall:
        QUERN_CHECK(delta.call == calls_);
        result.push_back(begin_call(delta.text));
        break;
      case Kind::kArguments:
        QUERN_CHECK(!parts_.empty() && parts_.back().kind == AnswerPart::Kind::kCall);
        result.push_back(append(AnswerPart::Kind::kCall, delta.text));
        break;
    }
  }
  return result;
}

std::vector<PartDelta> AnswerReader::push(std::string_view text) {
  tools::OutputDeltas deltas;
  parser_->push(text, deltas);
  return take(deltas);
}

std::vector<PartDelta> AnswerReader::finish(FinishReason reason) {
  tools::OutputDeltas deltas;
  parser_->finish(deltas, reason == FinishReason::kStop ? tools::Ending::kWhole : tools::Ending::kCut);
  return take(deltas);
}

}  // namespace quern
