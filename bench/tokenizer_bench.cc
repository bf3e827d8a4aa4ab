// What tokenizing costs one core, in processor time (others may use the machine):
//
//   tokenizer_bench TEXT TOKENIZER...      a tokenizer.json or a GGUF file each; TEXT is UTF-8
//
// For each: characters a second over the whole text, and milliseconds for a prompt of 8,192 tokens from its beginning,
// first (nothing is cached yet) and best of 20.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "base/status.h"
#include "formats/gguf/gguf_file.h"
#include "text/tokenizer.h"

namespace quern {
namespace {

constexpr size_t kPromptTokens = 8192;
constexpr int kRounds = 5;
constexpr int kPromptRounds = 20;

double processor_seconds() {
  timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

Result<std::unique_ptr<Tokenizer>> load(const std::string& path) {
  if (!path.ends_with(".gguf")) return Tokenizer::from_file(path, Json());
  QUERN_ASSIGN(const auto gguf, GgufFile::open(path));
  return Tokenizer::from_gguf(gguf->metadata(), path);
}

Result<double> seconds_for(const Tokenizer& tokenizer, std::string_view text, size_t& num_tokens) {
  const double start = processor_seconds();
  QUERN_ASSIGN(const Encoding encoding, tokenizer.encode(text, {.add_special = false, .parse_special = true}));
  num_tokens = encoding.ids.size();
  return processor_seconds() - start;
}

// The beginning of a text that makes that many tokens.
Result<std::string> prompt_of(const Tokenizer& tokenizer, std::string_view text) {
  QUERN_ASSIGN(Encoding encoding, tokenizer.encode(text, {.add_special = false}));
  encoding.ids.resize(std::min(encoding.ids.size(), kPromptTokens));
  return tokenizer.decode(encoding.ids, false);
}

Status measure(const std::string& path, const std::string& text) {
  size_t num_tokens = 0;
  std::string prompt;
  {
    QUERN_ASSIGN(const auto tokenizer, load(path));
    QUERN_ASSIGN(prompt, prompt_of(*tokenizer, text));
  }
  const double start = processor_seconds();
  QUERN_ASSIGN(const auto tokenizer, load(path));
  const double load_seconds = processor_seconds() - start;
  size_t prompt_tokens = 0;
  QUERN_ASSIGN(const double first, seconds_for(*tokenizer, prompt, prompt_tokens));
  double best_prompt = first;
  for (int i = 0; i < kPromptRounds; ++i) {
    QUERN_ASSIGN(const double seconds, seconds_for(*tokenizer, prompt, prompt_tokens));
    best_prompt = std::min(best_prompt, seconds);
  }
  double best = 1e9;
  for (int i = 0; i < kRounds; ++i) {
    QUERN_ASSIGN(const double seconds, seconds_for(*tokenizer, text, num_tokens));
    best = std::min(best, seconds);
  }
  const auto chars = static_cast<double>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
  fmt::print("{:<44} load {:6.0f} ms  {:7.2f} M chars/s  {:8} tokens  {} tokens: first {:6.2f} ms, best {:6.2f} ms\n",
             path.substr(path.rfind('/') + 1), load_seconds * 1e3, chars / best / 1e6, num_tokens, prompt_tokens,
             first * 1e3, best_prompt * 1e3);
  return {};
}

}  // namespace
}  // namespace quern

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: tokenizer_bench TEXT TOKENIZER...\n");
    return 2;
  }
  std::ostringstream text;
  text << std::ifstream(argv[1], std::ios::binary).rdbuf();
  for (int i = 2; i < argc; ++i) {
    if (const auto status = quern::measure(argv[i], text.str()); !status) {
      fmt::print(stderr, "{}: {}\n", argv[i], status.error().message);
      return 1;
    }
  }
  return 0;
}
