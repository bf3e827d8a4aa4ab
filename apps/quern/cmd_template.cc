// quern template: messages to the text of a prompt, as the model's chat template writes it.
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "command.h"
#include "input.h"
#include "json_lines.h"
#include "model_arg.h"
#include "text/chat_template.h"
#include "text_source.h"

namespace quern::cli {
namespace {

struct TemplateOptions {
  std::string model;
  std::string template_file;
  std::string messages;
  std::string tools;
  std::string documents;
  std::string cases;
  std::string now;
  std::vector<std::string> variables;
  bool no_generation_prompt = false;
  bool continue_final = false;
};

Result<Json> read_json_file(const std::string& path, Json::value_t kind, const char* kind_name) {
  QUERN_ASSIGN(const std::string text, read_text(path));
  QUERN_ASSIGN(Json json, parse_json(text, input_name(path)));
  if (json.type() != kind) return invalid_argument(fmt::format("{}: not {}", input_name(path), kind_name));
  return json;
}

Result<TemplateSource> read_source(const TemplateOptions& options) {
  if (!options.template_file.empty()) {
    QUERN_ASSIGN(std::string text, read_text(options.template_file));
    return TemplateSource{.text = std::move(text), .special_tokens = {}};
  }
  return open_template(options.model, !options.tools.empty());
}

// "name=json" of --set.
Status set_variable(Json& variables, const std::string& assignment) {
  const size_t at = assignment.find('=');
  if (at == std::string::npos || at == 0) return invalid_argument(fmt::format("--set {}: not NAME=JSON", assignment));
  QUERN_ASSIGN(variables[assignment.substr(0, at)],
               parse_json(std::string_view(assignment).substr(at + 1), "--set " + assignment.substr(0, at)));
  return {};
}

Result<TemplateInput> read_input(const TemplateOptions& options) {
  TemplateInput input;
  QUERN_ASSIGN(input.messages, read_json_file(options.messages, Json::value_t::array, "a list of messages"));
  if (!options.tools.empty()) {
    QUERN_ASSIGN(input.tools, read_json_file(options.tools, Json::value_t::array, "a list of tools"));
  }
  if (!options.documents.empty()) {
    QUERN_ASSIGN(input.documents, read_json_file(options.documents, Json::value_t::array, "a list of documents"));
  }
  for (const std::string& assignment : options.variables) QUERN_TRY(set_variable(input.kwargs, assignment));
  input.continue_final_message = options.continue_final;
  input.add_generation_prompt = !options.no_generation_prompt && !options.continue_final;
  if (!options.now.empty()) input.now = options.now;
  return input;
}

Result<TemplateInput> input_of_case(const TemplateOptions& options, const Json& line) {
  TemplateInput input;
  input.messages = line.value("messages", Json());
  input.tools = line.value("tools", Json());
  input.documents = line.value("documents", Json());
  QUERN_ASSIGN(input.add_generation_prompt, bool_field(line, "add_generation_prompt", false));
  QUERN_ASSIGN(input.continue_final_message, bool_field(line, "continue_final_message", false));
  if (const auto kwargs = line.find("kwargs"); kwargs != line.end() && !kwargs->is_null()) {
    if (!kwargs->is_object()) return invalid_argument("kwargs is not an object");
    input.kwargs = *kwargs;
  }
  if (const auto tokens = line.find("special_tokens"); tokens != line.end() && tokens->is_object()) {
    for (const auto& [name, text] : tokens->items()) {
      if (!text.is_string()) return invalid_argument(fmt::format("special_tokens: {} is not a string", name));
      input.special_tokens.emplace_back(name, text.get<std::string>());
    }
  }
  if (!options.now.empty()) {
    input.now = options.now;
  } else if (line.contains("now")) {
    QUERN_ASSIGN(input.now, text_field(line, "now"));
  }
  return input;
}

// `usual` is the template of lines that carry none.
Result<Json> answer_case(const TemplateOptions& options, const ChatTemplate* usual, const Json& line) {
  std::unique_ptr<ChatTemplate> own;
  if (line.contains("template")) {
    QUERN_ASSIGN(const std::string text, text_field(line, "template"));
    QUERN_ASSIGN(own, ChatTemplate::create(text));
  }
  const ChatTemplate* chat_template = own ? own.get() : usual;
  if (chat_template == nullptr)
    return invalid_argument("template is missing, and no MODEL or --template-file is given");
  QUERN_ASSIGN(const TemplateInput input, input_of_case(options, line));
  QUERN_ASSIGN(const TemplateOutput output, chat_template->render(input));
  Json answer = {{"rendered", output.text}};
  if (!output.assistant_spans.empty()) answer["assistant_spans"] = output.assistant_spans;
  return answer;
}

Status answer_cases(const TemplateOptions& options) {
  std::unique_ptr<ChatTemplate> usual;
  if (!options.model.empty() || !options.template_file.empty()) {
    QUERN_ASSIGN(const TemplateSource source, read_source(options));
    QUERN_ASSIGN(usual, ChatTemplate::create(source.text));
  }
  return answer_lines(options.cases, [&](const Json& line) { return answer_case(options, usual.get(), line); });
}

Status render(const TemplateOptions& options) {
  if (!options.model.empty() && !options.template_file.empty()) {
    return invalid_argument("MODEL and --template-file exclude each other");
  }
  if (!options.cases.empty()) return answer_cases(options);
  if (options.model.empty() && options.template_file.empty())
    return invalid_argument("MODEL or --template-file is needed");
  if (options.messages.empty()) return invalid_argument("--messages or --cases is needed");
  QUERN_ASSIGN(TemplateInput input, read_input(options));
  QUERN_ASSIGN(TemplateSource source, read_source(options));
  input.special_tokens = std::move(source.special_tokens);
  const std::string file = options.template_file.empty() ? options.model : input_name(options.template_file);
  const auto chat_template = ChatTemplate::create(source.text);
  if (!chat_template) return std::unexpected(prefixed(chat_template.error(), file));
  const auto output = (*chat_template)->render(input);
  if (!output) {
    const bool of_clock = !options.now.empty() && output.error().message.starts_with("time '");
    return std::unexpected(prefixed(output.error(), of_clock ? "--now" : file));
  }
  return print(output->text);
}

}  // namespace

void add_template(CLI::App& app, ExitCode& exit) {
  CLI::App* command = app.add_subcommand("template", "Messages to prompt text, without a newline at the end");
  const auto options = std::make_shared<TemplateOptions>();
  command->add_option("MODEL", options->model, kModelHelp);
  command->add_option("--template-file", options->template_file,
                      "a file with a Jinja template in place of a model's; - is stdin");
  command->add_option("--messages", options->messages, "a JSON file: a list of messages; - is stdin");
  command->add_option("--tools", options->tools, "a JSON file: a list of tools; - is stdin");
  command->add_option("--documents", options->documents, "a JSON file: a list of documents; - is stdin");
  command->add_flag("--no-generation-prompt", options->no_generation_prompt, "do not open the assistant's turn");
  command->add_flag("--continue-final", options->continue_final, "leave the final message open");
  command
      ->add_option("--set", options->variables,
                   "NAME=JSON: a further variable of the template, e.g. enable_thinking=false")
      ->take_all();
  command->add_option("--now", options->now,
                      "the time strftime_now sees, e.g. 2026-03-05T09:07:03 (default: the clock's)");
  command->add_option("--cases", options->cases,
                      "a file of JSON lines with messages and options, - is stdin; one answer a line");
  command->callback([options, command, &exit] { finish(render(*options), *command, exit); });
}

}  // namespace quern::cli
