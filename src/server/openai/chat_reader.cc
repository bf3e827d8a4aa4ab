#include "server/openai/chat_reader.h"

namespace quern::openai {
namespace {

Json call_json(const AnswerPart& part, const std::string& arguments) {
  return {{"id", part.call_id}, {"type", "function"}, {"function", {{"name", part.name}, {"arguments", arguments}}}};
}

}  // namespace

std::vector<Json> ChatReader::written(const std::vector<PartDelta>& deltas) {
  std::vector<Json> result;
  for (const PartDelta& delta : deltas) {
    const AnswerPart& part = reader_.parts()[delta.part];
    if (part.kind == AnswerPart::Kind::kText) {
      result.push_back({{"content", delta.text}});
    } else if (part.kind == AnswerPart::Kind::kReasoning) {
      result.push_back({{"reasoning_content", delta.text}, {"reasoning", delta.text}});
    } else {
      if (delta.begins) ++calls_;
      Json call = {{"index", calls_ - 1}};
      call.update(delta.begins ? call_json(part, "") : Json{{"function", {{"arguments", delta.text}}}});
      result.push_back({{"tool_calls", Json::array({std::move(call)})}});
    }
  }
  return result;
}

Json ChatReader::message() const {
  std::string content, reasoning;
  Json calls = Json::array();
  for (const AnswerPart& part : reader_.parts()) {
    switch (part.kind) {
      case AnswerPart::Kind::kText: content += part.text; break;
      case AnswerPart::Kind::kReasoning: reasoning += part.text; break;
      case AnswerPart::Kind::kCall: calls.push_back(call_json(part, part.text)); break;
    }
  }
  Json message = {{"role", "assistant"}};
  message["content"] = content.empty() && !calls.empty() ? Json(nullptr) : Json(content);
  if (!reasoning.empty()) {
    message["reasoning_content"] = reasoning;
    message["reasoning"] = reasoning;
  }
  if (!calls.empty()) message["tool_calls"] = std::move(calls);
  return message;
}

}  // namespace quern::openai
