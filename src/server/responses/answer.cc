#include "server/responses/answer.h"

#include "base/status.h"
#include "server/route.h"

namespace quern::responses {
namespace {

using Kind = AnswerPart::Kind;

Json content_part(Kind kind, const std::string& text) {
  if (kind == Kind::kReasoning) return {{"type", "reasoning_text"}, {"text", text}};
  return {{"type", "output_text"}, {"text", text}, {"annotations", Json::array()}, {"logprobs", Json::array()}};
}

const char* id_prefix(Kind kind) {
  switch (kind) {
    case Kind::kReasoning: return "rs_";
    case Kind::kCall: return "fc_";
    case Kind::kText: break;
  }
  return "msg_";
}

const char* delta_type(Kind kind) {
  switch (kind) {
    case Kind::kReasoning: return "response.reasoning_text.delta";
    case Kind::kCall: return "response.function_call_arguments.delta";
    case Kind::kText: break;
  }
  return "response.output_text.delta";
}

Json usage_json(const FinishEvent& finish, int64_t reasoning_tokens) {
  return {{"input_tokens", finish.prompt_tokens},
          {"input_tokens_details", {{"cached_tokens", finish.cached_tokens}}},
          {"output_tokens", finish.output_tokens},
          {"output_tokens_details", {{"reasoning_tokens", reasoning_tokens}}},
          {"total_tokens", finish.prompt_tokens + finish.output_tokens}};
}

}  // namespace

std::vector<PartDelta> Answer::add(const Event& event) {
  std::vector<PartDelta> deltas;
  if (event.token) {
    ++tokens_;
    deltas = reader_.push(event.token->text);
    if (!reader_.parts().empty() && reader_.parts().back().kind == Kind::kReasoning) reasoning_tokens_ = tokens_;
  }
  if (!event.finish) return deltas;
  for (auto& more : {reader_.push(event.finish->text), reader_.finish(event.finish->reason)}) {
    deltas.insert(deltas.end(), more.begin(), more.end());
  }
  end_ = *event.finish;
  return deltas;
}

const std::vector<AnswerPart>& Answer::parts() const {
  static const std::vector<AnswerPart> empty_text(1);
  return end_ && reader_.parts().empty() ? empty_text : reader_.parts();
}

ResponseObject::ResponseObject(const ResponseRequest& request, const std::string& model) : id_(random_id("resp_")) {
  body_ = {{"id", id_},
           {"object", "response"},
           {"created_at", unix_seconds()},
           {"status", "in_progress"},
           {"error", nullptr},
           {"incomplete_details", nullptr},
           {"model", model},
           {"output", Json::array()},
           {"truncation", "disabled"},
           {"usage", nullptr},
           {"user", nullptr}};
  body_.update(request.echo);
}

Json ResponseObject::item(size_t index, const AnswerPart& part, const char* status) {
  while (item_ids_.size() <= index) item_ids_.push_back(random_id(id_prefix(part.kind)));
  const std::string& id = item_ids_[index];
  if (part.kind == Kind::kCall) {
    return {{"type", "function_call"}, {"id", id},        {"call_id", part.call_id}, {"name", part.name},
            {"arguments", part.text},  {"status", status}};
  }
  Json content = Json::array();
  if (std::string_view(status) != "in_progress") content.push_back(content_part(part.kind, part.text));
  if (part.kind == Kind::kReasoning) {
    return {{"type", "reasoning"},
            {"id", id},
            {"summary", Json::array()},
            {"content", std::move(content)},
            {"status", status}};
  }
  return {{"type", "message"}, {"id", id}, {"status", status}, {"role", "assistant"}, {"content", std::move(content)}};
}

void ResponseObject::finish(const Answer& answer) {
  const auto& parts = answer.parts();
  const bool cut = answer.end()->reason == FinishReason::kLength;
  body_["status"] = cut ? "incomplete" : "completed";
  if (cut) body_["incomplete_details"] = {{"reason", "max_output_tokens"}};
  Json output = Json::array();
  for (size_t i = 0; i < parts.size(); ++i) {
    output.push_back(item(i, parts[i], cut && i + 1 == parts.size() ? "incomplete" : "completed"));
  }
  body_["output"] = std::move(output);
  body_["usage"] = usage_json(*answer.end(), answer.reasoning_tokens());
}

void ResponseObject::fail(const ApiError& error) {
  body_["status"] = "failed";
  body_["error"] = {{"code", error.status == 429 ? "rate_limit_exceeded" : "server_error"}, {"message", error.message}};
}

std::string ResponseObject::event(const char* type, Json fields) {
  Json data = {{"type", type}, {"sequence_number", sequence_number_++}};
  data.update(fields);
  return fmt::format("event: {}\ndata: {}\n\n", type, dump_json(data));
}

std::string ResponseObject::item_event(const char* type, size_t index, Json fields, bool has_content) {
  Json data = {{"item_id", item_ids_[index]}, {"output_index", index}};
  if (has_content) data["content_index"] = 0;
  data.update(fields);
  return event(type, std::move(data));
}

std::string ResponseObject::begin_events() {
  std::string events = event("response.created", {{"response", body_}});
  return events + event("response.in_progress", {{"response", body_}});
}

std::string ResponseObject::begin_item(size_t index, const AnswerPart& part) {
  const AnswerPart empty{.kind = part.kind, .text = "", .call_id = part.call_id, .name = part.name};
  Json added = item(index, empty, "in_progress");
  std::string events = event("response.output_item.added", {{"output_index", index}, {"item", std::move(added)}});
  if (part.kind == Kind::kCall) return events;
  return events + item_event("response.content_part.added", index, {{"part", content_part(part.kind, "")}}, true);
}

std::string ResponseObject::end_item(size_t index, const AnswerPart& part, const char* status) {
  std::string events;
  switch (part.kind) {
    case Kind::kText:
      events = item_event("response.output_text.done", index, {{"text", part.text}, {"logprobs", Json::array()}}, true);
      break;
    case Kind::kReasoning:
      events = item_event("response.reasoning_text.done", index, {{"text", part.text}}, true);
      break;
    case Kind::kCall:
      events = item_event("response.function_call_arguments.done", index,
                          {{"name", part.name}, {"arguments", part.text}}, false);
      break;
  }
  if (part.kind != Kind::kCall) {
    events += item_event("response.content_part.done", index, {{"part", content_part(part.kind, part.text)}}, true);
  }
  return events + event("response.output_item.done", {{"output_index", index}, {"item", item(index, part, status)}});
}

std::string ResponseObject::delta_events(const Answer& answer, const std::vector<PartDelta>& deltas) {
  const auto& parts = answer.parts();
  std::string events;
  for (const PartDelta& delta : deltas) {
    const AnswerPart& part = parts[delta.part];
    if (delta.begins && delta.part > 0) events += end_item(delta.part - 1, parts[delta.part - 1], "completed");
    if (delta.begins) events += begin_item(delta.part, part);
    if (delta.text.empty()) continue;
    Json fields = {{"delta", delta.text}};
    if (part.kind == Kind::kText) fields["logprobs"] = Json::array();
    events += item_event(delta_type(part.kind), delta.part, std::move(fields), part.kind != Kind::kCall);
  }
  return events;
}

std::string ResponseObject::end_events(const Answer& answer) {
  const auto& parts = answer.parts();
  const size_t last = parts.size() - 1;
  std::string events;
  if (item_ids_.empty()) events = begin_item(last, parts[last]);  // there was nothing to tell
  finish(answer);
  const bool cut = answer.end()->reason == FinishReason::kLength;
  events += end_item(last, parts[last], cut ? "incomplete" : "completed");
  return events + event(cut ? "response.incomplete" : "response.completed", {{"response", body_}});
}

std::string ResponseObject::fail_event(const ApiError& error) {
  fail(error);
  return event("response.failed", {{"response", body_}});
}

std::string error_event(const ApiError& error) {
  const Json code = error.code.empty() ? Json("server_error") : Json(error.code);
  const Json event = {{"type", "error"},
                      {"code", code},
                      {"message", error.message},
                      {"param", nullptr},
                      {"error", {{"message", error.message}, {"type", error.type}, {"code", code}}}};
  return fmt::format("event: error\ndata: {}\n\n", dump_json(event));
}

}  // namespace quern::responses
