// quern embed MODEL --text T… [--file F]: embeddings of texts.
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

struct EmbedArgs : EncoderArgs {
  std::vector<std::string> texts;
};

Status embed(const EmbedArgs& args) {
  QUERN_ASSIGN(const NamedTexts texts, NamedTexts::read(args.texts, "--text", args.file));
  QUERN_ASSIGN(const EncoderOptions options, encoder_options(args));
  QUERN_ASSIGN(const std::filesystem::path path, resolve_model(args.model));
  QUERN_ASSIGN(auto service, EncoderService::open(path, options));
  const auto embeddings = service->embed(texts.texts());
  if (!embeddings) return std::unexpected(texts.in_terms_of_input(embeddings.error(), "text"));
  if (args.json) {
    Json data = Json::array();
    for (size_t i = 0; i < embeddings->vectors.size(); ++i) {
      data.push_back({{"index", i}, {"embedding", embeddings->vectors[i]}});
    }
    std::printf("%s\n", dump_json({{"data", std::move(data)}}).c_str());
    return {};
  }
  for (const std::vector<float>& vector : embeddings->vectors) {
    std::printf("%s\n", fmt::format("{}", fmt::join(vector, " ")).c_str());
  }
  return {};
}

}  // namespace

void add_embed(CLI::App& app, ExitCode& exit) {
  auto args = std::make_shared<EmbedArgs>();
  CLI::App* command = app.add_subcommand("embed", "Embeddings of texts");
  add_encoder_options(*command, *args);
  command->add_option("--text", args->texts, "a text, may be repeated")->expected(1)->take_all();
  command->add_option("--file", args->file, "a file with one text per line; - is stdin");
  command->add_flag("--json", args->json, "one JSON object: {\"data\":[{\"index\",\"embedding\"}]}");
  command->callback([args, command, &exit] { finish(embed(*args), *command, exit); });
}

}  // namespace quern::cli
