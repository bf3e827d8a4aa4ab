// The tokenizer and chat template that a MODEL argument brings; weights are not looked at.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "quern/status.h"
#include "text/tokenizer.h"

namespace quern::cli {

// MODEL as every command takes it, and besides a bare tokenizer.json or a GGUF without tensors.
Result<std::unique_ptr<Tokenizer>> open_tokenizer(const std::string& model);

struct TemplateSource {
  std::string text;
  std::vector<std::pair<std::string, std::string>> special_tokens;
};
// The template for messages with tools when `with_tools` and the model has one of its own for them ("tool_use").
// kNotFound when the model has no chat template.
Result<TemplateSource> open_template(const std::string& model, bool with_tools);

}  // namespace quern::cli
