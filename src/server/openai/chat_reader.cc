#include "server/openai/chat_reader.h"

#include <random>

#include "base/check.h"

namespace quern::openai {
namespace {

std::string make_call_id(bool is_short) {
  thread_local std::mt19937_64 generator{std::random_device{}()};
  constexpr std::string_view kLetters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  std::string id = is_short ? "" : "call_";
  for (int i = 0; i < (is_short ? 9 : 24); ++i) id += kLetters[generator() % kLetters.size()];
  return id;
}

}  // namespace

std::vector<Json> ChatReader::take(const tools::OutputDeltas& deltas) {
  std::vector<Json> result;
  for (const tools::OutputDelta& delta : deltas) {
    const bool is_call =
        delta.kind == tools::OutputDelta::Kind::kCall || delta.kind == tools::OutputDelta::Kind::kArguments;
    if (is_call && !options_.parallel_calls && delta.call > 0) continue;
    switch (delta.kind) {
      case tools::OutputDelta::Kind::kContent:
        content_ += delta.text;
        result.push_back({{"content", delta.text}});
        break;
      case tools::OutputDelta::Kind::kReasoning:
        if (!options_.include_reasoning) break;
        reasoning_ += delta.text;
        result.push_back({{"reasoning_content", delta.text}, {"reasoning", delta.text}});
        break;
      case tools::OutputDelta::Kind::kCall: {
        QUERN_CHECK(static_cast<size_t>(delta.call) == calls_.size());
        calls_.push_back({{"id", make_call_id(options_.short_call_ids)},
                          {"type", "function"},
                          {"function", {{"name", delta.text}, {"arguments", ""}}}});
        Json call = {{"index", delta.call}};
        call.update(calls_.back());
        result.push_back({{"tool_calls", Json::array({std::move(call)})}});
        break;
      }
      case tools::OutputDelta::Kind::kArguments: {
        auto& arguments = calls_.at(static_cast<size_t>(delta.call))["function"]["arguments"].get_ref<std::string&>();
        arguments += delta.text;
        const Json call = {{"index", delta.call}, {"function", {{"arguments", delta.text}}}};
        result.push_back({{"tool_calls", Json::array({call})}});
        break;
      }
    }
  }
  return result;
}

std::vector<Json> ChatReader::push(std::string_view text) {
  tools::OutputDeltas deltas;
  parser_->push(text, deltas);
  return take(deltas);
}

std::vector<Json> ChatReader::finish() {
  tools::OutputDeltas deltas;
  parser_->finish(deltas);
  return take(deltas);
}

Json ChatReader::message() const {
  Json message = {{"role", "assistant"}};
  message["content"] = content_.empty() && !calls_.empty() ? Json(nullptr) : Json(content_);
  if (!reasoning_.empty()) {
    message["reasoning_content"] = reasoning_;
    message["reasoning"] = reasoning_;
  }
  if (!calls_.empty()) message["tool_calls"] = calls_;
  return message;
}

}  // namespace quern::openai
