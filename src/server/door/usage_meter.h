// What an answer cost, read out of its bytes as they pass: `usage` of OpenAI's and Anthropic's shapes, the counts of
// Ollama's. A few KiB are held at most, whatever the answer's length. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace quern::door {

class UsageMeter {
 public:
  // In whatever pieces. Of several counts the last one holds.
  void see(std::string_view bytes);
  bool told() const { return input_ || output_; }
  // The tokens read and written. Of a stream that was not whole, or whose worker did not tell, an event or a line
  // counts as one written, and `prompt_guess` are those read.
  int64_t tokens(bool is_whole, int64_t prompt_guess) const;

 private:
  void look_at(std::string_view usage);
  size_t look_for_counts(std::string_view text);

  std::optional<int64_t> input_, output_;
  int64_t cached_ = 0;  // Anthropic's, which `input_tokens` leaves out
  int64_t events_ = 0;
  bool at_line_start_ = true;
  std::string held_;  // the beginning of a count that is not whole yet
};

// Takes out of a stream of OpenAI's shape what a worker says only because the door asked it for `usage`. Pure.
class UsageHider {
 public:
  std::string pass(std::string lines);  // whole lines, as StreamGuard gives them

 private:
  bool drops_blank_ = false;
};

// The value of `stream_options` that asks for usage; nullopt: `written` (empty: there was none) asks already, or is
// nothing to add to.
std::optional<std::string> asking_for_usage(std::string_view written);

}  // namespace quern::door
