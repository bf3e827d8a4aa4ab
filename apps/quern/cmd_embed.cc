// quern embed MODEL --text T… [--file F]: embeddings of texts.
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "command.h"
#include "engine/encoder_service.h"
#include "model_arg.h"

namespace quern::cli {
namespace {

struct Options {
  std::string model;
  std::vector<std::string> texts;
  std::string file;
  std::string precision = "fast";
  std::string device = "auto";
  int32_t threads = 0;
  bool json = false;
};

Status add_lines(const std::string& path, std::vector<std::string>& texts) {
  std::ifstream file(path);
  if (!file) return not_found(fmt::format("--file {}: cannot be read", path));
  for (std::string line; std::getline(file, line);) texts.push_back(line);
  return {};
}

Status run(Options options) {
  if (!options.file.empty()) QUERN_TRY(add_lines(options.file, options.texts));
  if (options.texts.empty()) return invalid_argument("--text or --file: at least one text is needed");
  QUERN_ASSIGN(const Precision precision, parse_precision(options.precision));
  QUERN_ASSIGN(const std::filesystem::path path, resolve_model(options.model));
  QUERN_ASSIGN(
      auto service,
      EncoderService::open(path, {.device = options.device, .precision = precision, .num_threads = options.threads}));
  QUERN_ASSIGN(const Embeddings embeddings, service->embed(options.texts));
  if (options.json) {
    Json data = Json::array();
    for (size_t i = 0; i < embeddings.vectors.size(); ++i) {
      data.push_back({{"index", i}, {"embedding", embeddings.vectors[i]}});
    }
    std::printf("%s\n", dump_json({{"data", std::move(data)}}).c_str());
    return {};
  }
  for (const std::vector<float>& vector : embeddings.vectors) {
    std::printf("%s\n", fmt::format("{}", fmt::join(vector, " ")).c_str());
  }
  return {};
}

}  // namespace

void add_embed(CLI::App& app, ExitCode& exit) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("embed", "Embeddings of texts");
  command->add_option("model", options->model, kModelHelp)->required();
  command->add_option("--text", options->texts, "Text, may be repeated");
  command->add_option("--file", options->file, "File with one text per line");
  command->add_option("--precision", options->precision, "fast | exact")->capture_default_str();
  command->add_option("--device", options->device, "auto | cpu | reference")->capture_default_str();
  command->add_option("-t,--threads", options->threads, "Threads, 0: one per physical core")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  command->add_flag("--json", options->json, "One JSON object: {\"data\":[{\"index\",\"embedding\"}]}");
  command->callback([options, &exit] { finish(run(*options), exit); });
}

}  // namespace quern::cli
