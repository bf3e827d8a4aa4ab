#include "server/anthropic/as_chat.h"

#include "base/status.h"
#include "server/anthropic/answer.h"
#include "server/anthropic/request.h"
#include "server/anthropic/turns.h"
#include "server/foreign/chat_answer.h"
#include "server/foreign/chat_body.h"
#include "server/foreign/plain.h"

namespace quern::anthropic {
namespace {

class MessagesAsChat final : public foreign::Translation {
 public:
  MessagesAsChat(Json body, const MessagesRequest& request, const std::string& model)
      : Translation("/v1/chat/completions", std::move(body)),
        head_{.id = random_id("msg_"), .model = model},
        answer_({.parallel_calls = request.tools.parallel,
                 .include_reasoning = request.show_thinking,
                 .call_id_prefix = "toolu_"}) {
    is_stream = request.stream;
  }

  ApiResult<Json> whole(const Json& answer) override {
    if (const auto added = answer_.add(answer); !added) return std::unexpected(added.error());
    return message_body(head_, answer_.reader(), answer_.finish());
  }
  // How many tokens the prompt has is known at the end only.
  std::string begin() override { return start_events(head_, 0); }
  ApiResult<std::string> event(const Json& event) override {
    const auto deltas = answer_.add(event);
    if (!deltas) return std::unexpected(deltas.error());
    return delta_events(answer_.reader(), *deltas);
  }
  ApiResult<std::string> end() override {
    if (!answer_.has_ended()) return std::unexpected(foreign::unfinished());
    return end_events(answer_.reader(), answer_.finish());
  }

 private:
  const MessageHead head_;
  foreign::ChatAnswer answer_;
};

Json choice_of(const Json& body) {
  const auto choice = body.find("tool_choice");
  if (choice == body.end() || choice->is_null()) return nullptr;
  const std::string type = type_of(*choice);
  if (type == "any") return "required";
  if (type == "tool") return {{"type", "function"}, {"function", {{"name", choice->value("name", Json(""))}}}};
  return type;
}

}  // namespace

ApiResult<std::unique_ptr<foreign::Translation>> messages_as_chat(const foreign::Asked& asked) {
  auto request = parse_messages_request(asked.body, SamplingOptions(), Purpose::kAnswer);
  if (!request) return std::unexpected(request.error());
  foreign::ChatBody chat{.messages = std::move(request->messages),
                         .tools = request->tools.shown,
                         .tool_choice = choice_of(asked.body),
                         .parallel_calls = request->tools.parallel,
                         .grammar = request->grammar,
                         .template_kwargs = request->template_kwargs,
                         .thinking_budget = request->thinking_budget,
                         .continue_final_message = request->continue_final_message,
                         .stream = request->stream};
  auto body = foreign::chat_body(asked, std::move(chat));
  if (!body) return std::unexpected(body.error());
  for (const char* name : {"max_tokens", "temperature", "top_p"}) {
    if (asked.body.contains(name) && !asked.body[name].is_null()) (*body)[name] = asked.body[name];
  }
  if (asked.body.contains("top_k") && !asked.body["top_k"].is_null()) {
    if (const auto set = foreign::set_extra(*body, asked, "top_k", asked.body["top_k"], "top_k"); !set) {
      return std::unexpected(set.error());
    }
  }
  foreign::bound_limits(*body, asked.context);
  if (!request->request.stop.empty()) (*body)["stop"] = request->request.stop;
  return std::make_unique<MessagesAsChat>(std::move(*body), *request, asked.shown_name);
}

}  // namespace quern::anthropic
