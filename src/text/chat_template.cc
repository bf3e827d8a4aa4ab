#include "text/chat_template.h"

#include <ctime>

#include "base/status.h"
#include "text/rust.h"
#include "text/wall_clock.h"

namespace quern {
namespace {

// A render that takes longer than this is hostile; real templates take milliseconds.
constexpr uint64_t kRenderMilliseconds = 5'000;

struct HandleDeleter {
  void operator()(QuernTemplate* handle) const { quern_template_free(handle); }
};

// How `transformers` continues a message: a mark at the end of its content, and everything from the mark on cut off.
// Its space shows whether the template trims content.
constexpr std::string_view kMark = "CONTINUE_FINAL_MESSAGE_TAG";

Status mark_content(Json& content) {
  if (content.is_string()) {
    content = content.get<std::string>() + std::string(kMark) + " ";
    return {};
  }
  if (content.is_array()) {
    for (auto part = content.rbegin(); part != content.rend(); ++part) {
      if (part->is_object() && part->contains("text") && (*part)["text"].is_string())
        return mark_content((*part)["text"]);
    }
  }
  return invalid_argument("continue_final_message: the final message has no text");
}

Status mark_final_message(Json& messages) {
  if (!messages.is_array() || messages.empty() || !messages.back().is_object()) {
    return invalid_argument("continue_final_message: there is no final message");
  }
  return mark_content(messages.back()["content"]);
}

std::string_view trim_right(std::string_view text) {
  // What Python's str.rstrip takes for white space.
  constexpr std::string_view kSpaces[] = {
      " ",      "\t",     "\n",     "\r",     "\v",     "\f",     "\x1c",   "\x1d",   "\x1e",   "\x1f",
      "\u0085", "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005", "\u2006",
      "\u2007", "\u2008", "\u2009", "\u200a", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"};
  for (bool found = true; found;) {
    found = false;
    for (const std::string_view space : kSpaces) {
      if (!text.ends_with(space)) continue;
      text.remove_suffix(space.size());
      found = true;
    }
  }
  return text;
}

Status cut_at_mark(std::string& text) {
  const size_t at = text.rfind(kMark);
  if (at == std::string::npos) {
    return invalid_argument("continue_final_message: the template does not show the final message's content");
  }
  const bool keeps_space = at + kMark.size() < text.size() && text[at + kMark.size()] == ' ';
  text.resize(at);
  if (!keeps_space) text.resize(trim_right(text).size());
  return {};
}

int64_t code_points(std::string_view text) {
  int64_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return count;
}

// What `transformers` (5.24) does to a message before it renders it: a field that is null is as good as absent, and
// reasoning goes by each name that templates know it by. The first name that has a value wins. A null content stays:
// there are templates that ask whether it is none, and fail where it is undefined.
Json prepared(const Json& message) {
  constexpr const char* kReasoningNames[] = {"reasoning_content", "thinking", "reasoning"};
  if (!message.is_object()) return message;
  const Json* reasoning = nullptr;
  for (const char* name : kReasoningNames) {
    const auto found = message.find(name);
    if (reasoning == nullptr && found != message.end() && !found->is_null()) reasoning = &*found;
  }
  Json result = Json::object();
  if (reasoning != nullptr) result["thinking"] = *reasoning;  // in front; its own value, if any, follows
  for (const auto& [name, value] : message.items()) {
    if (!value.is_null() || name == "content") result[name] = value;
  }
  if (reasoning != nullptr) result["reasoning_content"] = *reasoning;
  return result;
}

Json prepared_messages(const Json& messages) {
  if (!messages.is_array()) return messages;
  Json result = Json::array();
  for (const Json& message : messages) result.push_back(prepared(message));
  return result;
}

Json variables_of(const TemplateInput& input) {
  Json variables = Json::object();
  for (const auto& [name, text] : input.special_tokens) variables[name] = text;
  variables["messages"] = prepared_messages(input.messages);
  variables["tools"] = input.tools;
  variables["documents"] = input.documents;
  variables["add_generation_prompt"] = input.add_generation_prompt;
  for (const auto& [name, value] : input.kwargs.items()) variables[name] = value;
  return variables;
}

class RustTemplate final : public ChatTemplate {
 public:
  explicit RustTemplate(QuernTemplate* handle) : handle_(handle) {}

  Result<TemplateOutput> render(const TemplateInput& input) const override {
    Json variables = variables_of(input);
    if (input.continue_final_message) QUERN_TRY(mark_final_message(variables["messages"]));
    int64_t now = local_wall_seconds();
    if (input.now) {
      QUERN_ASSIGN(now, parse_iso_time(*input.now));
    }
    const std::string json = dump_json(variables);
    rust::Buffer text;
    rust::Ids spans;
    rust::Buffer error;
    QUERN_TRY(rust::to_status(
        quern_template_render(handle_.get(), rust::bytes(json), now, text.out(), spans.out(), error.out()), error));
    TemplateOutput output = {.text = text.text()};
    if (input.continue_final_message) QUERN_TRY(cut_at_mark(output.text));
    const int64_t length = code_points(output.text);
    for (size_t i = 0; i + 1 < spans.ids().size(); i += 2) {
      const int64_t begin = spans.ids()[i];
      if (begin < length) output.assistant_spans.emplace_back(begin, std::min<int64_t>(spans.ids()[i + 1], length));
    }
    return output;
  }

 private:
  std::unique_ptr<QuernTemplate, HandleDeleter> handle_;
};

}  // namespace

Result<std::unique_ptr<ChatTemplate>> ChatTemplate::create(std::string_view text, const TemplateLimits& limits) {
  const QuernTemplateLimits numbers = {
      .fuel = limits.fuel_max,
      .output_bytes = limits.output_bytes_max,
      .recursion = limits.recursion_max,
      .milliseconds = kRenderMilliseconds,
  };
  QuernTemplate* handle = nullptr;
  rust::Buffer error;
  QUERN_TRY(rust::to_status(quern_template_create(rust::bytes(text), &numbers, &handle, error.out()), error));
  return std::make_unique<RustTemplate>(handle);
}

}  // namespace quern
