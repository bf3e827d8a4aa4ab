// GGUF files: all that happens between opening one and its first logits.
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/check.h"
#include "formats/gguf/gguf_file.h"
#include "model_run.h"
#include "scratch.h"
#include "targets.h"
#include "tensor_run.h"
#include "text/chat_template.h"
#include "text_run.h"

namespace quern::fuzz {

void run_gguf(std::string_view file) {
  auto parsed = GgufFile::parse(std::as_bytes(std::span(file)), "file.gguf");
  if (!parsed) return check_refusal(parsed.error());
  run_tensors(**parsed);
  const GgufMetadata& metadata = (*parsed)->metadata();
  if (auto tokenizer = Tokenizer::from_gguf(metadata, "file.gguf")) {
    run_text(**tokenizer);
  } else {
    check_refusal(tokenizer.error());
  }
  if (auto text = metadata.get_string("tokenizer.chat_template")) run_template(*text);
  ModelSource source;
  source.path = "file.gguf";
  source.gguf = std::move(*parsed);
  run_model(source);
}

void run_gguf_split(std::string_view input) {
  uint32_t first_size = 0;
  if (input.size() < sizeof(first_size)) return;
  std::memcpy(&first_size, input.data(), sizeof(first_size));
  input.remove_prefix(sizeof(first_size));
  const std::string_view first = input.substr(0, first_size);
  const std::string_view second = input.substr(first.size());
  const auto path = scratch_file("model-00001-of-00002.gguf", first);
  scratch_file("model-00002-of-00002.gguf", second);
  auto opened = GgufFile::open(path);
  if (!opened) return check_refusal(opened.error());
  run_tensors(**opened);
}

}  // namespace quern::fuzz
