#include "platform/config/server_config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>

#include "base/mapped_file.h"
#include "base/status.h"
#include "formats/printable.h"
#include "platform/config/yaml_tree.h"
#include "platform/model_name.h"

namespace quern {
namespace {

namespace fs = std::filesystem;

constexpr float kConfigAlphaMax = 1000.0f;
constexpr size_t kConfigModelsMax = 256;
constexpr size_t kConfigAdaptersMax = 1024;

bool is_plain_key(std::string_view key) {
  return !key.empty() && key.size() <= 64 && std::ranges::all_of(key, [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

std::string join(std::string_view path, std::string_view key) {
  const std::string shown = is_plain_key(key) ? std::string(key) : printable(key);
  return path.empty() ? shown : fmt::format("{}.{}", path, shown);
}

class Reader {
 public:
  explicit Reader(ServerConfig& config) : config_(config) {}

  Status read(const YamlNode& root) {
    QUERN_TRY(check_map(root, "", {"compute", "quantization", "model", "models", "adapters", "serve"}));
    if (const YamlNode* node = root.find("compute")) QUERN_TRY(compute(*node));
    if (const YamlNode* node = root.find("quantization")) QUERN_TRY(quantization(*node));
    QUERN_TRY(models(root));
    if (const YamlNode* node = root.find("adapters")) QUERN_TRY(adapters(*node));
    const YamlNode* node = root.find("serve");
    return node == nullptr ? Status() : serve(*node);
  }

 private:
  std::unexpected<Error> refuse(const YamlNode& node, std::string_view path, std::string_view reason) const {
    return invalid_file(
        fmt::format("{}:{}: {}: {}", config_.file.string(), node.line, path.empty() ? "the file" : path, reason));
  }

  std::unexpected<Error> unknown(const YamlNode& node, std::string_view path, std::string_view reason) const {
    return invalid_file(fmt::format("{}:{}: {}: {}", config_.file.string(), node.key_line, path, reason));
  }

  Status check_kind(const YamlNode& node, std::string_view path, YamlKind kind) const {
    if (node.kind == kind) return {};
    return refuse(node, path, fmt::format("is {}, must be {}", yaml_kind_name(node.kind), yaml_kind_name(kind)));
  }

  Status check_map(const YamlNode& node, std::string_view path, std::span<const std::string_view> known) const {
    QUERN_TRY(check_kind(node, path, YamlKind::kMap));
    for (const auto& [key, value] : node.entries) {
      if (std::ranges::find(known, key) != known.end()) continue;
      return unknown(value, join(path, key), fmt::format("unknown key; here may stand {}", fmt::join(known, ", ")));
    }
    return {};
  }
  Status check_map(const YamlNode& node, std::string_view path, std::initializer_list<std::string_view> known) const {
    return check_map(node, path, std::span(known.begin(), known.size()));
  }

  Result<ConfigValue> scalar(const YamlNode& node, std::string path) const {
    QUERN_TRY(check_kind(node, path, YamlKind::kScalar));
    if (node.text.empty()) return refuse(node, path, "is empty");
    return ConfigValue{.key = std::move(path), .line = node.line, .text = node.text};
  }

  Status compute(const YamlNode& node) {
    QUERN_TRY(check_map(node, "compute", {"device"}));
    const YamlNode* device = node.find("device");
    if (device == nullptr) return {};
    QUERN_ASSIGN(config_.device, scalar(*device, "compute.device"));
    return {};
  }

  Result<std::string> mode(const YamlNode& node, const std::string& path, bool may_be_hybrid) const {
    QUERN_ASSIGN(const ConfigValue value, scalar(node, path));
    for (const std::string_view known : {"none", "fp16", "int8", "int4", "hybrid"}) {
      if (value.text == known && (known != "hybrid" || may_be_hybrid)) return value.text;
    }
    return refuse(node, path,
                  fmt::format("{} is not one of none, fp16, int8, int4{}", printable(value.text),
                              may_be_hybrid ? ", hybrid" : ""));
  }

  Status quantization(const YamlNode& node) {
    QUERN_TRY(check_map(node, "quantization", {"mode", "config"}));
    const YamlNode* mode_node = node.find("mode");
    const YamlNode* parts = node.find("config");
    if (mode_node == nullptr) return refuse(node, "quantization.mode", "is missing");
    QUERN_ASSIGN(std::string scheme, mode(*mode_node, "quantization.mode", true));
    if (scheme != "hybrid") {
      if (parts != nullptr) return refuse(*parts, "quantization.config", "only with mode: hybrid");
    } else {
      if (parts == nullptr) return refuse(node, "quantization.config", "is missing: hybrid needs attention and ffn");
      QUERN_TRY(check_map(*parts, "quantization.config", {"attention", "ffn"}));
      std::string separator = ":";
      for (const char* part : {"attention", "ffn"}) {
        const std::string path = join("quantization.config", part);
        const YamlNode* value = parts->find(part);
        if (value == nullptr) return refuse(*parts, path, "is missing: hybrid needs attention and ffn");
        QUERN_ASSIGN(const std::string of_part, mode(*value, path, false));
        scheme += fmt::format("{}{}={}", separator, part, of_part);
        separator = ",";
      }
    }
    config_.quantization = ConfigValue{.key = "quantization.mode", .line = mode_node->line, .text = scheme};
    return {};
  }

  Status add_model(const YamlNode& node, std::string path) {
    QUERN_ASSIGN(ConfigValue value, scalar(node, std::move(path)));
    std::error_code error;
    const std::string joined = config_.resolve(value.text);
    const auto name = parse_model_name(value.text);
    if (fs::exists(joined, error) || (name && name->kind == ModelNameKind::kPath)) value.text = joined;
    config_.models.push_back(std::move(value));
    return {};
  }

  Status models(const YamlNode& root) {
    if (const YamlNode* node = root.find("model")) QUERN_TRY(add_model(*node, "model"));
    const YamlNode* list = root.find("models");
    if (list == nullptr) return {};
    QUERN_TRY(check_kind(*list, "models", YamlKind::kList));
    if (list->items.size() > kConfigModelsMax)
      return refuse(*list, "models", fmt::format("more than {}", kConfigModelsMax));
    for (size_t i = 0; i < list->items.size(); ++i) {
      QUERN_TRY(add_model(list->items[i], fmt::format("models[{}]", i)));
    }
    return {};
  }

  Result<float> alpha(const YamlNode& node, const std::string& path) const {
    QUERN_ASSIGN(const ConfigValue value, scalar(node, path));
    float number = 0;
    const char* end = value.text.data() + value.text.size();
    const auto [stop, error] = std::from_chars(value.text.data(), end, number);
    if (error != std::errc() || stop != end || !std::isfinite(number)) {
      return refuse(node, path, fmt::format("{} is not a number", printable(value.text)));
    }
    if (std::fabs(number) > kConfigAlphaMax) {
      return refuse(node, path, fmt::format("{} is not between {} and {}", number, -kConfigAlphaMax, kConfigAlphaMax));
    }
    return number;
  }

  Status add_adapter(const YamlNode& node, const std::string& path) {
    QUERN_TRY(check_map(node, path, {"path", "alpha", "name"}));
    ConfigAdapter adapter;
    const YamlNode* file = node.find("path");
    if (file == nullptr) return refuse(node, path + ".path", "is missing");
    QUERN_ASSIGN(adapter.path, scalar(*file, path + ".path"));
    if (const YamlNode* name = node.find("name")) {
      QUERN_ASSIGN(adapter.name, scalar(*name, path + ".name"));
    } else {
      adapter.name = adapter.path;
      const fs::path given = fs::path(adapter.path.text).lexically_normal();
      const fs::path last = given.has_filename() ? given : given.parent_path();
      adapter.name.text = last.extension() == ".gguf" ? last.stem().string() : last.filename().string();
    }
    if (const YamlNode* factor = node.find("alpha")) {
      QUERN_ASSIGN(adapter.alpha, alpha(*factor, path + ".alpha"));
    }
    if (adapter.name.text.empty()) return refuse(node, path + ".name", "is missing, and the path names no file");
    adapter.path.text = config_.resolve(adapter.path.text);
    for (const ConfigAdapter& other : config_.adapters) {
      if (other.name.text != adapter.name.text) continue;
      return refuse(node, path + ".name", fmt::format("{} is the name of another adapter", printable(other.name.text)));
    }
    config_.adapters.push_back(std::move(adapter));
    return {};
  }

  Status adapters(const YamlNode& node) {
    QUERN_TRY(check_kind(node, "adapters", YamlKind::kList));
    if (node.items.size() > kConfigAdaptersMax)
      return refuse(node, "adapters", fmt::format("more than {}", kConfigAdaptersMax));
    for (size_t i = 0; i < node.items.size(); ++i) {
      QUERN_TRY(add_adapter(node.items[i], fmt::format("adapters[{}]", i)));
    }
    return {};
  }

  Status serve(const YamlNode& node) {
    QUERN_TRY(check_kind(node, "serve", YamlKind::kMap));
    for (const auto& [key, value] : node.entries) {
      const std::string path = join("serve", key);
      if (!is_plain_key(key) || key.find('-') != std::string::npos) return unknown(value, path, "unknown key");
      if (value.kind != YamlKind::kList) {
        QUERN_ASSIGN(ConfigValue one, scalar(value, path));
        config_.serve.push_back(std::move(one));
        continue;
      }
      ConfigValue many{.key = path, .line = value.line, .is_list = true};
      for (size_t i = 0; i < value.items.size(); ++i) {
        QUERN_ASSIGN(ConfigValue item, scalar(value.items[i], fmt::format("{}[{}]", path, i)));
        many.list.push_back(std::move(item.text));
      }
      config_.serve.push_back(std::move(many));
    }
    return {};
  }

  ServerConfig& config_;
};

}  // namespace

Error ServerConfig::refusal(const ConfigValue& value, const Error& error) const {
  // The rooms below begin with the name of their own field, which the key says better.
  std::string_view message = error.message;
  const std::string_view field = std::string_view(value.key).substr(value.key.rfind('.') + 1);
  for (const std::string_view name : {field, std::string_view("quantization")}) {
    if (message.starts_with(name) && message.substr(name.size()).starts_with(": "))
      message.remove_prefix(name.size() + 2);
  }
  const ErrorCode code = error.code == ErrorCode::kUnsupported ? ErrorCode::kUnsupported : ErrorCode::kInvalidFile;
  return {code, fmt::format("{}:{}: {}: {}", file.string(), value.line, value.key, message)};
}

std::string ServerConfig::resolve(const std::string& path) const {
  return (file.parent_path() / path).string();
}

Result<ServerConfig> parse_server_config(std::string_view text, const fs::path& file) {
  ServerConfig config;
  config.file = file;
  auto tree = read_yaml(text);
  if (!tree) return make_error(tree.error().code, fmt::format("{}:{}", file.string(), tree.error().message));
  QUERN_TRY(Reader(config).read(*tree));
  return config;
}

Result<ServerConfig> read_server_config(const fs::path& file) {
  QUERN_ASSIGN(const MappedFile mapped, MappedFile::open(file));
  const auto bytes = mapped.bytes();
  return parse_server_config({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, file);
}

}  // namespace quern
