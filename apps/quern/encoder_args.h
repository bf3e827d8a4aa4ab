// What `embed` and `rerank` share: how the encoder is run, and texts that come from a file.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/encoder_service.h"
#include "quern/status.h"

namespace quern::cli {

struct EncoderArgs {
  std::string model;
  std::string file;  // of more texts, one a line
  std::string precision = "fast";
  std::string device = "auto";
  int32_t threads = 0;
  std::optional<int32_t> truncate_prompt_tokens;
  bool json = false;
};
void add_encoder_options(CLI::App& command, EncoderArgs& args);

Result<EncoderOptions> encoder_options(const EncoderArgs& args);

// Texts of an option, and after them the lines of --file.
class NamedTexts {
 public:
  static Result<NamedTexts> read(const std::vector<std::string>& given, std::string option, const std::string& file);
  const std::vector<std::string>& texts() const { return texts_; }

  // "text 3: …" of the encoder, which calls a text `word`, under the option or the file and line that gave it; one that
  // is too long with the option that cuts it.
  Error in_terms_of_input(Error error, std::string_view word) const;

 private:
  std::string name(size_t index) const;

  std::vector<std::string> texts_;
  std::string option_, file_;
  size_t num_given_ = 0;  // by the option
};

}  // namespace quern::cli
