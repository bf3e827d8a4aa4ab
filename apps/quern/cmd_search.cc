// quern search WORD…: models of the catalogue, custom ones included.
#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "base/status.h"
#include "catalog_report.h"
#include "command.h"
#include "platform/catalog/describe.h"

namespace quern::cli {
namespace {

struct SearchOptions {
  CatalogQuery query;
  bool json = false;
};

std::string sizes_text(const CatalogModel& model) {
  std::string text;
  for (const CatalogSize& size : model.sizes) text += (text.empty() ? "" : ",") + size.name;
  return text;
}

Status search(const SearchOptions& options) {
  QUERN_ASSIGN(const Catalog catalog, Catalog::open());
  Json data = Json::array();
  for (const CatalogModel* model : catalog.search(options.query)) {
    if (options.json) {
      data.push_back(catalog_model_json(*model));
      continue;
    }
    std::printf("%-36s %-14s %-34s %s\n", model->name.c_str(), model->kind.c_str(), sizes_text(*model).c_str(),
                model->description.c_str());
  }
  if (options.json) print_json({{"data", data}});
  return {};
}

}  // namespace

void add_search(CLI::App& app, ExitCode& exit) {
  const auto options = std::make_shared<SearchOptions>();
  CLI::App* command = app.add_subcommand("search", "models of the catalogue that fit; without a WORD all of them");
  command->add_option("WORD", options->query.words,
                      "part of the name, family, description, abilities or languages; all must be there");
  command->add_option("--kind", options->query.kind,
                      "chat, completion, code, vision, embedding, rerank, transcription, speech, image; LLM, audio");
  command->add_option("--ability", options->query.ability, "tools, reasoning, vision, embed, rerank, transcribe …");
  command->add_option("--format", options->query.format,
                      "gguf, safetensors, mlx, ctranslate2, onnx, pytorch, diffusers");
  command->add_option("--max-size", options->query.parameters_b_max, "billions of parameters that some size may have")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--json", options->json, "print JSON");
  command->callback([options, command, &exit] { finish(search(*options), *command, exit); });
}

}  // namespace quern::cli
