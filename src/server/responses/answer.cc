#include "server/responses/answer.h"

#include "base/status.h"
#include "server/route.h"

namespace quern::responses {
namespace {

Json text_part(const std::string& text) {
  return {{"type", "output_text"}, {"text", text}, {"annotations", Json::array()}, {"logprobs", Json::array()}};
}

Json usage_json(const FinishEvent& finish) {
  return {{"input_tokens", finish.prompt_tokens},
          {"input_tokens_details", {{"cached_tokens", finish.cached_tokens}}},
          {"output_tokens", finish.output_tokens},
          {"output_tokens_details", {{"reasoning_tokens", 0}}},
          {"total_tokens", finish.prompt_tokens + finish.output_tokens}};
}

}  // namespace

ResponseObject::ResponseObject(const ResponseRequest& request, const std::string& model)
    : id_(random_id("resp_")), message_id_(random_id("msg_")) {
  body_ = {{"id", id_},
           {"object", "response"},
           {"created_at", unix_seconds()},
           {"status", "in_progress"},
           {"error", nullptr},
           {"incomplete_details", nullptr},
           {"model", model},
           {"output", Json::array()},
           {"parallel_tool_calls", true},
           {"tool_choice", "auto"},
           {"tools", Json::array()},
           {"truncation", "disabled"},
           {"text", {{"format", {{"type", "text"}}}}},
           {"reasoning", {{"effort", nullptr}, {"summary", nullptr}}},
           {"usage", nullptr},
           {"user", nullptr}};
  body_.update(request.echo);
}

Json ResponseObject::message(const std::string& text, const char* status) const {
  Json content = Json::array();
  if (!text.empty() || std::string_view(status) != "in_progress") content.push_back(text_part(text));
  return {{"type", "message"},
          {"id", message_id_},
          {"status", status},
          {"role", "assistant"},
          {"content", std::move(content)}};
}

void ResponseObject::finish(const std::string& text, const FinishEvent& finish) {
  const bool cut = finish.reason == FinishReason::kLength;
  body_["status"] = cut ? "incomplete" : "completed";
  if (cut) body_["incomplete_details"] = {{"reason", "max_output_tokens"}};
  Json output = Json::array();
  output.push_back(message(text, cut ? "incomplete" : "completed"));
  body_["output"] = std::move(output);
  body_["usage"] = usage_json(finish);
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

std::string ResponseObject::begin_events() {
  std::string events = event("response.created", {{"response", body_}});
  events += event("response.in_progress", {{"response", body_}});
  events += event("response.output_item.added", {{"output_index", 0}, {"item", message("", "in_progress")}});
  events += event("response.content_part.added",
                  {{"item_id", message_id_}, {"output_index", 0}, {"content_index", 0}, {"part", text_part("")}});
  return events;
}

std::string ResponseObject::delta_event(const std::string& text) {
  return event("response.output_text.delta", {{"item_id", message_id_},
                                              {"output_index", 0},
                                              {"content_index", 0},
                                              {"delta", text},
                                              {"logprobs", Json::array()}});
}

std::string ResponseObject::end_events(const std::string& text, const FinishEvent& end) {
  finish(text, end);
  std::string events = event("response.output_text.done", {{"item_id", message_id_},
                                                           {"output_index", 0},
                                                           {"content_index", 0},
                                                           {"text", text},
                                                           {"logprobs", Json::array()}});
  events += event("response.content_part.done",
                  {{"item_id", message_id_}, {"output_index", 0}, {"content_index", 0}, {"part", text_part(text)}});
  events += event("response.output_item.done", {{"output_index", 0}, {"item", body_["output"][0]}});
  const bool cut = end.reason == FinishReason::kLength;
  return events + event(cut ? "response.incomplete" : "response.completed", {{"response", body_}});
}

std::string ResponseObject::fail_event(const ApiError& error) {
  fail(error);
  return event("response.failed", {{"response", body_}});
}

}  // namespace quern::responses
