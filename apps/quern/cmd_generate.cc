// quern generate MODEL --ids | --prompt | --messages | --jsonl: requests straight to the engine.
#include <cstdio>
#include <memory>

#include "answer.h"
#include "base/status.h"
#include "command.h"
#include "generate_lines.h"
#include "generation_options.h"
#include "grammar_options.h"
#include "input.h"
#include "model_arg.h"

namespace quern::cli {
namespace {

struct GenerateOptions {
  std::string model;
  std::optional<std::string> ids, prompt, messages;
  bool jsonl = false;
  bool json = false;
  int32_t n = 1;
  int32_t top_logprobs = 0;
  SamplingArgs sampling;
  GrammarArgs grammar;
  EngineOptions engine;
};

struct Prompt {
  std::vector<int32_t> ids;
  std::string option;  // that gave it
};

Result<Prompt> read_prompt(const GenerateOptions& options, const TextModel& text) {
  Prompt prompt;
  if (options.ids) {
    prompt.option = "--ids";
    QUERN_ASSIGN(prompt.ids, parse_ids("--ids", *options.ids));
  } else if (options.prompt) {
    prompt.option = "--prompt";
    auto ids = text.encode_prompt(*options.prompt);
    if (!ids) return std::unexpected(with_name(std::move(ids).error(), "text", prompt.option));
    prompt.ids = std::move(*ids);
  } else {
    prompt.option = input_name(*options.messages);
    QUERN_ASSIGN(Conversation conversation, read_conversation(*options.messages));
    TemplateInput input;
    input.messages = std::move(conversation.messages);
    input.tools = std::move(conversation.tools);
    input.documents = std::move(conversation.documents);
    auto ids = text.encode_chat(std::move(input));
    if (!ids) return std::unexpected(prefixed(std::move(ids).error(), prompt.option));
    prompt.ids = std::move(*ids);
  }
  return prompt;
}

Status answer_once(const GenerateOptions& options, const OpenedModel& model, std::shared_ptr<const Grammar> grammar) {
  QUERN_ASSIGN(const Prompt prompt, read_prompt(options, *model.text));
  QUERN_ASSIGN(Request request, make_request(options.sampling, model.text->defaults(), {}));
  request.prompt_ids = prompt.ids;
  request.n = options.n;
  request.top_logprobs = options.top_logprobs;
  request.grammar = std::move(grammar);
  auto stream = model.engine->submit(std::move(request));
  if (!stream) return std::unexpected(with_name(stream.error(), "prompt_ids", prompt.option));
  const auto show = [&](int32_t, const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };
  const bool as_it_comes = !options.json && options.n == 1;
  QUERN_ASSIGN(const auto answers,
               read_answers(**stream, options.n, as_it_comes ? show : decltype(std::function(show))()));
  if (options.json) {
    const Json json = answers_json(prompt.ids, answers, options.top_logprobs > 0);
    std::printf("%s\n", dump_json(json).c_str());
  } else if (as_it_comes) {
    std::printf("\n");
  } else {
    for (const Answer& answer : answers) std::printf("%s\n", answer.text.c_str());
  }
  return {};
}

Status run(GenerateOptions& options) {
  const int sources =
      options.ids.has_value() + options.prompt.has_value() + options.messages.has_value() + options.jsonl;
  if (sources != 1) return invalid_argument("generate: give one of --ids, --prompt, --messages, --jsonl");
  if (options.n < 1) return invalid_argument(fmt::format("--n: {} is less than 1", options.n));
  QUERN_ASSIGN(const auto named, read_grammar(options.grammar));
  QUERN_ASSIGN(options.engine.model_path, resolve_model(options.model));
  if (!options.jsonl) options.engine.max_num_seqs = std::min(options.n, options.engine.max_num_seqs);
  QUERN_ASSIGN(const OpenedModel model, open_model(options.engine));
  std::shared_ptr<const Grammar> grammar;
  if (named) {
    QUERN_ASSIGN(grammar, compile(*model.engine, *named));
  }
  if (options.jsonl) return generate_lines(model, options.sampling, grammar);
  return answer_once(options, model, std::move(grammar));
}

}  // namespace

void add_generate(CLI::App& app, ExitCode& exit) {
  const auto options = std::make_shared<GenerateOptions>();
  options->sampling.max_tokens = 256;
  CLI::App* command = app.add_subcommand("generate", "continue a prompt, as text or as JSON with the ids");
  command->add_option("MODEL", options->model, kModelHelp)->required();
  command->add_option("--ids", options->ids, "prompt as token ids, used as given: 1,2,3");
  command->add_option("--prompt", options->prompt, "prompt as text; the model's start token is added");
  command->add_option("--messages", options->messages, "JSON file of chat messages; - is stdin");
  command->add_flag("--jsonl", options->jsonl, "one JSON request a line on stdin, one JSON answer a line on stdout");
  command->add_flag("--json", options->json, "print one JSON object");
  command->add_option("--n", options->n, "answers to the prompt")->capture_default_str();
  command->add_option("--top-logprobs", options->top_logprobs, "most likely tokens to report with each token (--json)");
  add_sampling_options(*command, options->sampling);
  add_grammar_options(*command, options->grammar);
  command->get_option("--max-tokens")->default_str("256");
  add_engine_options(*command, options->engine);
  add_scheduling_options(*command, options->engine);
  add_adapter_options(*command, options->engine);
  command->callback([options, command, &exit] { finish(run(*options), *command, exit); });
}

}  // namespace quern::cli
