#include "server/openai/job.h"

namespace quern::openai {

std::vector<ChatReader> make_readers(const Job& job) {
  std::vector<ChatReader> readers;
  if (!job.plan) return readers;
  for (int32_t i = 0; i < job.fields.request.n; ++i) readers.emplace_back(job.plan->make_parser(), job.reader);
  return readers;
}

const char* finish_name(const std::vector<ChatReader>& readers, size_t at, FinishReason reason) {
  const bool calls = !readers.empty() && readers[at].has_calls() && reason == FinishReason::kStop;
  return calls ? "tool_calls" : finish_reason_name(reason);
}

}  // namespace quern::openai
