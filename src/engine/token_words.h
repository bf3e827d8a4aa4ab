// Words that requests give as text and samplers want as tokens. Thread-safe: whoever submits a request asks.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "quern/status.h"
#include "sample/dry.h"
#include "text/tokenizer.h"

namespace quern {

class TokenWords {
 public:
  explicit TokenWords(std::shared_ptr<const Tokenizer> tokenizer) : tokenizer_(std::move(tokenizer)) {}

  // Each word as it is written at the start of a line and, where that is another first token, after a space (as vLLM).
  Result<std::vector<std::vector<int32_t>>> bad_word_ids(const std::vector<std::string>& words) const;

  // Every token that holds one of the strings, and every token that ends with the beginning of one, with the tokens of
  // its rest (as llama.cpp). Scans the vocabulary; the last few lists are kept.
  Result<std::shared_ptr<const DryBreakers>> dry_breakers(const std::vector<std::string>& strings) const;

 private:
  Result<std::vector<int32_t>> ids_of(const std::string& text) const;
  Result<DryBreakers> scan(const std::vector<std::string>& strings) const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  mutable std::mutex mutex_;
  mutable std::map<std::vector<std::string>, std::shared_ptr<const DryBreakers>> known_;  // guarded by mutex_
};

}  // namespace quern
