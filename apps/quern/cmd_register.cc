// quern register FILE|PATH|URL, quern unregister NAME, quern registrations: custom models of the catalogue.
#include <cstdio>
#include <filesystem>
#include <memory>

#include "base/status.h"
#include "catalog_report.h"
#include "command.h"
#include "engine/encoder_queue.h"
#include "formats/gguf/gguf_folder.h"
#include "input.h"
#include "models/loader.h"
#include "platform/catalog/describe.h"
#include "platform/catalog/registrations.h"
#include "platform/http_client.h"
#include "platform/model_name.h"

namespace quern::cli {
namespace {

namespace fs = std::filesystem;

struct RegisterOptions {
  std::string from;
  std::string name;
  std::string type;
  bool json = false;
};

bool is_url(const std::string& text) {
  return text.starts_with("https://") || text.starts_with("http://");
}

// A name out of a file's: what may not stand in one becomes a dash.
std::string name_from(std::string text) {
  for (char& c : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
    if (!plain) c = '-';
  }
  return text.substr(0, 100);
}

std::string document_of(const std::string& name, const std::string& kind, const std::string& family, int64_t context,
                        const char* format, const char* source, const std::string& where) {
  return dump_json({{"name", name},
                    {"kind", kind},
                    {"family", family},
                    {"context", context},
                    {"variants", {{{"tag", "default"}, {"format", format}, {"sources", {{{source, where}}}}}}}});
}

// What the files themselves say.
Result<std::string> document_of_path(const fs::path& given) {
  std::error_code error;
  const fs::path path = fs::absolute(given, error).lexically_normal();
  QUERN_ASSIGN(const auto source, open_model_source(path));
  QUERN_ASSIGN(const ModelConfig config, read_model_config(*source));
  if (source->tensors() == nullptr) return not_found(fmt::format("{}: the folder has no weights", path.string()));
  const bool gguf = source->gguf != nullptr;
  const std::string kind = config.kind == ModelKind::kClassifier ? "rerank"
                           : is_encoding_source(*source)         ? "embedding"
                                                                 : "chat";
  const fs::path last = path.has_filename() ? path : path.parent_path();
  const std::string name = last.extension() == ".gguf" ? gguf_model_name(last) : last.filename().string();
  return document_of(name_from(name), kind, config.family, config.context_length, gguf ? "gguf" : "safetensors", "path",
                     path.string());
}

Result<std::string> document_of_url(const std::string& url) {
  if (!is_allowed_url(url)) return invalid_argument(fmt::format("{}: only https, or http to this machine", url));
  const std::string path = url.substr(0, url.find_first_of("?#"));
  if (!path.ends_with(".gguf")) {
    QUERN_ASSIGN(HttpDocument document, http_get(url, {}, kRegistrationBytesMax));
    return std::move(document.body);
  }
  const std::string file = path.substr(path.find_last_of('/') + 1);
  // Its kind and architecture are read when it is here.
  return document_of(name_from(file.substr(0, file.size() - 5)), "chat", "unknown", 0, "gguf", "url", url);
}

Result<std::string> document_of_source(const std::string& from) {
  if (is_url(from)) return document_of_url(from);
  std::error_code error;
  const fs::path path(from);
  if (!fs::exists(path, error)) return not_found(fmt::format("{}: no such file or folder", from));
  if (fs::is_directory(path, error) || path.extension() == ".gguf") return document_of_path(path);
  return read_text(from);
}

Json registration_json(const Registration& registration) {
  if (!registration.fault.empty()) return {{"name", registration.name}, {"fault", registration.fault}};
  Json json = catalog_model_json(registration.model);
  Json tags = Json::array();
  for (const CatalogVariant& variant : registration.model.variants) tags.push_back(variant.tag);
  json["variants"] = std::move(tags);
  return json;
}

Status add_registration(const RegisterOptions& options) {
  QUERN_ASSIGN(const std::string document, document_of_source(options.from));
  auto registration = register_model(document, options.type, options.name);
  if (!registration) return std::unexpected(prefixed(std::move(registration).error(), options.from));
  if (options.json) {
    print_json(registration_json(*registration));
  } else {
    std::printf("registered %s (%s)\n", registration->name.c_str(), registration->type.c_str());
  }
  return {};
}

Status list(const RegisterOptions& options) {
  Json data = Json::array();
  for (const Registration& registration : list_registrations()) {
    if (options.json) {
      data.push_back(registration_json(registration));
    } else if (!registration.fault.empty()) {
      std::printf("%-36s broken: %s\n", registration.name.c_str(), registration.fault.c_str());
    } else {
      std::printf("%-36s %-14s %s\n", registration.name.c_str(), registration.model.kind.c_str(),
                  catalog_source_text(registration.model.variants.front().sources.front()).c_str());
    }
  }
  if (options.json) print_json({{"data", data}});
  return {};
}

}  // namespace

void add_register(CLI::App& app, ExitCode& exit) {
  const auto options = std::make_shared<RegisterOptions>();
  CLI::App* command = app.add_subcommand("register", "give a model of your own a name in the catalogue");
  command
      ->add_option(
          "FROM", options->from,
          "a JSON document (its file or https URL; ours or Xinference's form), a .gguf file, a model's folder, or "
          "the https URL of a .gguf file")
      ->required();
  command->add_option("--name", options->name, "instead of the document's or the file's own");
  command->add_option("--type", options->type, "of Xinference's form: LLM, embedding, rerank, image or audio");
  command->add_flag("--json", options->json, "print JSON");
  command->callback([options, command, &exit] { finish(add_registration(*options), *command, exit); });
}

void add_unregister(CLI::App& app, ExitCode& exit) {
  const auto options = std::make_shared<RegisterOptions>();
  CLI::App* command = app.add_subcommand("unregister", "take a custom model's name away; its files stay");
  command->add_option("NAME", options->name, "as `quern registrations` shows it")->required();
  command->callback([options, command, &exit] { finish(unregister_model(options->name), *command, exit); });
}

void add_registrations(CLI::App& app, ExitCode& exit) {
  const auto options = std::make_shared<RegisterOptions>();
  CLI::App* command = app.add_subcommand("registrations", "custom models of the catalogue");
  command->add_flag("--json", options->json, "print JSON");
  command->callback([options, command, &exit] { finish(list(*options), *command, exit); });
}

}  // namespace quern::cli
