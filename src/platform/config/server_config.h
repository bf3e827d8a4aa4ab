// The configuration file of `quern serve`: one YAML file.
//
//   compute:
//     device: cpu                        # as --device
//   quantization:
//     mode: hybrid                       # as --quantization; hybrid's parts under config
//     config: {attention: fp16, ffn: int8}
//   models: [models/a.gguf, smollm2]     # or model: one
//   adapters:
//     - path: lora/adapter1              # relative to the file
//       alpha: 0.7                       # times the adapter's own scale
//       name: terse                      # what requests call it; absent: the path's last part
//   serve:                               # the other options of `quern serve`, - written _
//     port: 9997
//     max_num_seqs: 64
//
// Every key is known or refused, every refusal names the file, the line and the path of the key ("compute.devise").
// What the options of `serve` are is the command's business: they are handed over as text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quern/status.h"

namespace quern {

// A value, and where it stands.
struct ConfigValue {
  std::string key;  // its path: "serve.port", "adapters[0].alpha"
  int32_t line = 0;
  std::string text;
  std::vector<std::string> list;  // where is_list
  bool is_list = false;
};

struct ConfigAdapter {
  ConfigValue path;  // joined to the file's folder
  ConfigValue name;
  float alpha = 1.0f;
};

struct ServerConfig {
  std::filesystem::path file;
  std::optional<ConfigValue> device;
  std::optional<ConfigValue> quantization;  // as parse_quant_scheme() reads it
  std::vector<ConfigValue> models;          // relative paths are joined to the file's folder
  std::vector<ConfigAdapter> adapters;
  std::vector<ConfigValue> serve;  // key "serve.NAME"

  // "FILE:LINE: KEY: MESSAGE", kInvalidFile (kUnsupported stays) for what a value turned out to be.
  Error refusal(const ConfigValue& value, const Error& error) const;
  // A path of the file's author: relative to the file's folder.
  std::string resolve(const std::string& path) const;
};

// Errors: kNotFound, kInvalidFile, kIo.
Result<ServerConfig> read_server_config(const std::filesystem::path& file);
Result<ServerConfig> parse_server_config(std::string_view text, const std::filesystem::path& file);

}  // namespace quern
