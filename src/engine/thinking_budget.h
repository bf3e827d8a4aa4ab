// How long a model may think: counts the tokens between the marks of its reasoning and, when the budget is spent, says
// which tokens must come next to close it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "quern/engine.h"

namespace quern {

class ThinkingBudget {
 public:
  // Without a budget nothing is counted. `options` must outlive this.
  explicit ThinkingBudget(const ThinkingOptions* options)
      : options_(options != nullptr && options->budget >= 0 && !options->end_ids.empty() ? options : nullptr),
        thinking_(options_ != nullptr && options_->open_in_prompt) {}

  // The token that must come next; nullopt: whatever is drawn.
  std::optional<int32_t> forced() const {
    if (!thinking_ || thought_ < options_->budget) return std::nullopt;
    return options_->end_ids[closing_];
  }

  void accept(int32_t id) {
    if (options_ == nullptr) return;
    if (!thinking_) {
      opening_ = advance(options_->start_ids, opening_, id);
      if (options_->start_ids.empty() || opening_ < options_->start_ids.size()) return;
      thinking_ = true;
      thought_ = 0;
      opening_ = closing_ = 0;
      return;
    }
    ++thought_;
    closing_ = advance(options_->end_ids, closing_, id);
    if (closing_ == options_->end_ids.size()) {
      thinking_ = false;
      closing_ = 0;
    }
  }

 private:
  // How much of `mark` the text ends with after `id`; marks do not begin with a repetition of themselves.
  static size_t advance(std::span<const int32_t> mark, size_t matched, int32_t id) {
    if (mark.empty()) return 0;
    if (id == mark[matched]) return matched + 1;
    return id == mark[0] ? 1 : 0;
  }

  const ThinkingOptions* options_;
  bool thinking_;
  int32_t thought_ = 0;
  size_t opening_ = 0, closing_ = 0;
};

}  // namespace quern
