// Chat templates: a model's own Jinja text turns messages into a prompt. Rendering is minijinja (text/ffi) with
// Python's behaviour where Hugging Face templates rely on it. Bounded in time, output, recursion. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "quern/status.h"

namespace quern {

struct TemplateInput {
  // An array. Templates see it as `transformers` shows it: fields that are null (but content) are left out, and
  // reasoning stands under reasoning_content and thinking, whichever of reasoning_content, thinking and reasoning
  // brought it.
  Json messages;
  Json tools;      // array or null
  Json documents;  // array or null
  bool add_generation_prompt = true;
  bool continue_final_message = false;
  Json kwargs = Json::object();  // further variables: enable_thinking, …
  std::vector<std::pair<std::string, std::string>> special_tokens;
  std::optional<std::string> now;  // ISO 8601; fixes the clock of strftime_now
};
struct TemplateOutput {
  std::string text;
  std::vector<std::pair<int64_t, int64_t>> assistant_spans;  // {% generation %}: [start, end) in code points
};
struct TemplateLimits {
  uint64_t fuel_max = 8'000'000;  // interpreter steps; one also pays for 64 bytes of text or two items of a list
  size_t output_bytes_max = 16u << 20;
  size_t recursion_max = 100;
};

class ChatTemplate {
 public:
  // kInvalidFile: the text does not parse (one line, with the template's line number).
  static Result<std::unique_ptr<ChatTemplate>> create(std::string_view text, const TemplateLimits& limits = {});
  virtual ~ChatTemplate() = default;
  // kInvalidArgument: raise_exception (its message alone), an attribute of an undefined value, a limit that is reached.
  virtual Result<TemplateOutput> render(const TemplateInput& input) const = 0;
};

}  // namespace quern
