// quern rerank MODEL --query Q --document D… [--file F]: documents by their relevance to a query, best first.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "command.h"
#include "encoder_args.h"
#include "engine/encoder_service.h"
#include "model_arg.h"

namespace quern::cli {
namespace {

struct RerankArgs : EncoderArgs {
  std::string query;
  std::vector<std::string> documents;
};

Status rerank(const RerankArgs& args) {
  QUERN_ASSIGN(const NamedTexts documents, NamedTexts::read(args.documents, "--document", args.file));
  QUERN_ASSIGN(const EncoderOptions options, encoder_options(args));
  QUERN_ASSIGN(const std::filesystem::path path, resolve_model(args.model));
  QUERN_ASSIGN(auto reranker, Reranker::open(path, options));
  const auto relevance = reranker->rerank(args.query, documents.texts());
  if (!relevance) {
    return std::unexpected(documents.in_terms_of_input(with_name(relevance.error(), "query", "--query"), "document"));
  }
  Json results = Json::array();
  for (size_t index : ranking(relevance->scores)) {
    if (args.json) {
      results.push_back({{"index", index}, {"relevance_score", relevance->scores[index]}});
    } else {
      std::printf("%.6f\t%zu\t%s\n", static_cast<double>(relevance->scores[index]), index,
                  documents.texts()[index].c_str());
    }
  }
  if (args.json) std::printf("%s\n", dump_json({{"results", std::move(results)}}).c_str());
  return {};
}

}  // namespace

void add_rerank(CLI::App& app, ExitCode& exit) {
  auto args = std::make_shared<RerankArgs>();
  CLI::App* command = app.add_subcommand("rerank", "Documents by their relevance to a query, best first");
  add_encoder_options(*command, *args);
  command->add_option("--query", args->query, "the query")->required();
  command->add_option("--document", args->documents, "a document, may be repeated")->expected(1)->take_all();
  command->add_option("--file", args->file, "a file with one document per line; - is stdin");
  command->add_flag("--json", args->json, "one JSON object: {\"results\":[{\"index\",\"relevance_score\"}]}");
  command->callback([args, command, &exit] { finish(rerank(*args), *command, exit); });
}

}  // namespace quern::cli
