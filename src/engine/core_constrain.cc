// What an answer may say next: its grammar, and the end of its reasoning.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "engine/core.h"

namespace quern {

void EngineCore::begin_constraints(Sequence& sequence) {
  const Request& request = sequence.valid->request;
  sequence.thinking = ThinkingBudget(&request.thinking);
  if (request.grammar == nullptr) return;
  if (!grammar_worker_) grammar_worker_ = std::make_unique<GrammarWorker>();
  auto grammar = std::dynamic_pointer_cast<const CompiledGrammar>(request.grammar);
  QUERN_CHECK(grammar != nullptr);
  sequence.grammar = std::make_unique<AnswerGrammar>(*grammar_worker_, std::move(grammar));
}

Status EngineCore::constrain(Sequence& sequence, std::span<float> logits) {
  if (sequence.grammar) {
    if (Status status = sequence.grammar->apply(logits); !status) return status;
  }
  if (const auto forced = sequence.thinking.forced()) {
    const float logit = logits[static_cast<size_t>(*forced)];
    // A grammar that cannot be left here (in the middle of a character) comes first: the next token is forced then.
    if (sequence.grammar && !std::isfinite(logit)) return {};
    std::ranges::fill(logits, -std::numeric_limits<float>::infinity());
    logits[static_cast<size_t>(*forced)] = std::isfinite(logit) ? logit : 0.0f;
  }
  return {};
}

Result<bool> EngineCore::accept(Sequence& sequence, int32_t id) {
  sequence.thinking.accept(id);
  if (!sequence.grammar) return false;
  return sequence.grammar->accept(id);
}

}  // namespace quern
