// quern rerank MODEL --query Q --document D…: documents by their relevance to a query, best first.
#include <cstdio>
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
  std::string query;
  std::vector<std::string> documents;
  std::string precision = "fast";
  std::string device = "auto";
  int32_t threads = 0;
  bool json = false;
};

Status run(const Options& options) {
  QUERN_ASSIGN(const Precision precision, parse_precision(options.precision));
  QUERN_ASSIGN(const std::filesystem::path path, resolve_model(options.model));
  QUERN_ASSIGN(
      auto reranker,
      Reranker::open(path, {.device = options.device, .precision = precision, .num_threads = options.threads}));
  QUERN_ASSIGN(const RelevanceScores relevance, reranker->rerank(options.query, options.documents));
  Json results = Json::array();
  for (size_t index : ranking(relevance.scores)) {
    if (options.json) {
      results.push_back({{"index", index}, {"relevance_score", relevance.scores[index]}});
    } else {
      std::printf("%.6f\t%zu\t%s\n", static_cast<double>(relevance.scores[index]), index,
                  options.documents[index].c_str());
    }
  }
  if (options.json) std::printf("%s\n", dump_json({{"results", std::move(results)}}).c_str());
  return {};
}

}  // namespace

void add_rerank(CLI::App& app, ExitCode& exit) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("rerank", "Documents by their relevance to a query, best first");
  command->add_option("model", options->model, kModelHelp)->required();
  command->add_option("--query", options->query, "Query")->required();
  command->add_option("--document", options->documents, "Document, may be repeated")->required();
  command->add_option("--precision", options->precision, "fast | exact")->capture_default_str();
  command->add_option("--device", options->device, "auto | cpu | reference")->capture_default_str();
  command->add_option("-t,--threads", options->threads, "Threads, 0: one per physical core")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  command->add_flag("--json", options->json, "One JSON object: {\"results\":[{\"index\",\"relevance_score\"}]}");
  command->callback([options, &exit] { finish(run(*options), exit); });
}

}  // namespace quern::cli
