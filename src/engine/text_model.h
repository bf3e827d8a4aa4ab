// The text side of a model: what turns messages and text into ids and says how its makers want it to be sampled. What
// front ends know of a model; no tensor. Immutable and thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/loader.h"
#include "quern/engine.h"
#include "quern/status.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace quern {

// From generation_config.json, or a GGUF's general.sampling.*; absent where the makers say nothing. As in vLLM,
// do_sample is not looked at: whoever wants greedy says so in the request.
struct GenerationDefaults {
  std::optional<float> temperature, top_p, min_p, typical_p, repetition_penalty;
  std::optional<int32_t> top_k, max_new_tokens;

  // Sets what the makers say. Call before a request's own fields are applied.
  void apply_to(SamplingOptions& options) const;
};

class TextModel {
 public:
  // Copies what it needs: `source` may go afterwards. kInvalidFile for a tokenizer that cannot be read, a template that
  // does not parse is kept as an error that render() returns.
  static Result<std::shared_ptr<const TextModel>> create(const ModelSource& source);
  static Result<std::shared_ptr<const TextModel>> open(const std::filesystem::path& path);

  const std::string& id() const { return id_; }  // base name of the path, without .gguf
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const GenerationDefaults& defaults() const { return defaults_; }
  bool has_chat_template() const { return template_text_.has_value(); }
  const std::optional<std::string>& chat_template_text() const { return template_text_; }
  // Why the chat template cannot be used; empty when it can, or when there is none.
  std::string chat_template_fault() const { return template_ ? "" : template_.error().message; }

  // Text as a prompt of its own, which its sender rendered: special tokens in it count, and those that the model adds
  // are added unless they are there. A text that surely has more than `tokens_max` tokens (0: no limit) is refused
  // before all of it is encoded: kInvalidArgument, "prompt_ids: …".
  Result<std::vector<int32_t>> encode_prompt(std::string_view text, int32_t tokens_max = 0) const;
  // Messages to ids: the template's special tokens count, those inside messages stay text, none is added twice. The
  // model's special tokens are filled in. kUnsupported without a chat template.
  Result<std::vector<int32_t>> encode_chat(TemplateInput input, int32_t tokens_max = 0) const;

 private:
  TextModel() = default;

  std::string id_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::optional<std::string> template_text_;
  Result<std::unique_ptr<ChatTemplate>> template_ = nullptr;
  GenerationDefaults defaults_;
};

}  // namespace quern
