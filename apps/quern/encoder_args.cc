#include "encoder_args.h"

#include <charconv>

#include "base/status.h"
#include "command.h"
#include "input.h"
#include "model_arg.h"

namespace quern::cli {

void add_encoder_options(CLI::App& command, EncoderArgs& args) {
  command.add_option("MODEL", args.model, kModelHelp)->required();
  command.add_option("--precision", args.precision, "fast | exact")->capture_default_str();
  command.add_option("--device", args.device, "auto | cpu | reference")->capture_default_str();
  command.add_option("-t,--threads", args.threads, "threads; 0: one per physical core")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  command.add_option("--truncate-prompt-tokens", args.truncate_prompt_tokens,
                     "cut longer texts to so many tokens; -1: to the model's limit (default: they are refused)");
}

Result<EncoderOptions> encoder_options(const EncoderArgs& args) {
  QUERN_ASSIGN(const Precision precision, parse_precision(args.precision));
  return EncoderOptions{.device = args.device,
                        .precision = precision,
                        .num_threads = args.threads,
                        .truncate_prompt_tokens = args.truncate_prompt_tokens};
}

Result<NamedTexts> NamedTexts::read(const std::vector<std::string>& given, std::string option,
                                    const std::string& file) {
  NamedTexts result;
  result.option_ = std::move(option);
  result.texts_ = given;
  result.num_given_ = given.size();
  if (!file.empty()) {
    QUERN_ASSIGN(const std::string text, read_text(file));
    for (const std::string_view line : split_lines(text)) result.texts_.emplace_back(line);
    result.file_ = input_name(file);
  }
  if (result.texts_.empty()) {
    return invalid_argument(fmt::format("{} or --file: at least one text is needed", result.option_));
  }
  return result;
}

std::string NamedTexts::name(size_t index) const {
  if (index >= num_given_) return fmt::format("{}:{}", file_, index - num_given_ + 1);
  return texts_.size() == 1 ? option_ : fmt::format("{} (index {})", option_, index);
}

Error NamedTexts::in_terms_of_input(Error error, std::string_view word) const {
  std::string& message = error.message;
  if (message.ends_with(fmt::format("the model takes at most {}", message.substr(message.find_last_of(' ') + 1)))) {
    message += "; --truncate-prompt-tokens -1 cuts it";
  }
  const std::string start = std::string(word) + " ";
  size_t index = 0;
  if (!message.starts_with(start)) return error;
  const auto [end, fault] = std::from_chars(message.data() + start.size(), message.data() + message.size(), index);
  if (fault == std::errc() && index < texts_.size()) {
    message.replace(0, static_cast<size_t>(end - message.data()), name(index));
  }
  return error;
}

}  // namespace quern::cli
