// A Hugging Face model folder: the JSON files beside the weights. Absent optional files are null JSON values.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/json.h"
#include "quern/status.h"

namespace quern {

struct HfFolder {
  std::filesystem::path path;
  Json config;                                          // config.json, required, an object
  Json generation_config;                               // generation_config.json or null
  Json tokenizer_config;                                // tokenizer_config.json or null
  std::optional<std::filesystem::path> tokenizer_json;  // path of tokenizer.json when there is one
  std::optional<std::string>
      chat_template;  // chat_template.jinja, else tokenizer_config's (the "default" one of a list)
  Json modules;       // sentence-transformers: modules.json or null
  Json pooling;       // 1_Pooling/config.json or null
  Json sentence;      // sentence_bert_config.json or null
};

// Errors: kNotFound when the folder or config.json is missing, kInvalidFile for JSON that is malformed or nested too
// deep.
Result<HfFolder> open_hf_folder(const std::filesystem::path& path);

}  // namespace quern
