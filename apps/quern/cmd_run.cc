// quern run MODEL [PROMPT]: answers once, or talks.
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "base/status.h"
#include "chat_session.h"
#include "command.h"
#include "generation_options.h"
#include "input.h"
#include "line_editor.h"
#include "model_arg.h"
#include "platform/home.h"

namespace quern::cli {
namespace {

struct RunOptions {
  std::string model;
  std::vector<std::string> prompt;
  std::string system;
  bool quiet = false;
  SamplingArgs sampling;
  EngineOptions engine;
};

constexpr const char* kHelp =
    "  \"\"\"            begin or end a text of several lines; a \\ at the end of a line continues it\n"
    "  /set NAME VALUE system, temperature, top_k, top_p, min_p, repetition_penalty, max_tokens, seed\n"
    "  /set, /show     settings\n"
    "  /clear          forget the conversation\n"
    "  /bye            leave (also Ctrl-D)\n"
    "  Ctrl-C          stop the answer; at an empty prompt: leave\n";

// A pipe with nothing in it (yet) is not waited for when the prompt is already given: whoever started us may just have
// left it open.
bool stdin_has_text() {
  pollfd wait{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  return ::poll(&wait, 1, 0) > 0 && (wait.revents & POLLIN) != 0;
}

// One input of the user: a line, or several between """ or joined by a backslash. nullopt: the user leaves.
std::optional<std::string> read_input(LineEditor& editor) {
  std::string text, line;
  bool quoted = false;
  for (bool first = true;; first = false) {
    switch (editor.read(first ? ">>> " : "... ", line)) {
      case LineEditor::End::kEndOfInput: std::printf("\n"); return std::nullopt;
      case LineEditor::End::kInterrupted:
        std::printf("\n");
        if (first && line.empty()) return std::nullopt;
        return std::string();
      case LineEditor::End::kLine: break;
    }
    editor.remember(line);
    if (!quoted && first && line.starts_with("\"\"\"")) {
      quoted = true;
      line.erase(0, 3);
      if (line.empty()) continue;
    }
    if (quoted) {
      const bool closed = line.ends_with("\"\"\"");
      text += closed ? line.substr(0, line.size() - 3) : line + "\n";
      if (closed) return text;
      continue;
    }
    if (!line.ends_with('\\')) return text + line;
    line.pop_back();
    text += line + "\n";
  }
}

// Returns false when the user leaves.
bool obey(ChatSession& session, const std::string& command) {
  if (command == "/bye" || command == "/exit" || command == "/quit") return false;
  if (command == "/clear") {
    session.clear();
  } else if (command == "/show" || command == "/set") {
    std::fputs(session.describe().c_str(), stderr);
  } else if (command.starts_with("/set ")) {
    if (const auto done = session.set(command.substr(5)); !done)
      std::fprintf(stderr, "%s\n", done.error().message.c_str());
  } else {
    if (command != "/help" && command != "/?") std::fprintf(stderr, "%s is not a command.\n", command.c_str());
    std::fputs(kHelp, stderr);
  }
  return true;
}

Status talk(ChatSession& session) {
  LineEditor editor(quern_home() / "run_history");
  while (const auto input = read_input(editor)) {
    if (input->empty()) continue;
    if (input->starts_with('/') && input->find('\n') == std::string::npos) {
      if (!obey(session, *input)) break;
    } else if (const auto done = session.answer(*input); !done) {
      std::fprintf(stderr, "quern: %s\n", done.error().message.c_str());
    }
  }
  return {};
}

Status run(RunOptions& options) {
  const bool terminal = ::isatty(STDIN_FILENO) != 0;
  const bool interactive = options.prompt.empty() && terminal;
  if (interactive) {
    // Before the engine's threads start, so that they inherit it: only the session takes SIGINT, while it answers.
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  }
  QUERN_ASSIGN(options.engine.model_path, resolve_model(options.model));
  options.engine.max_num_seqs = 1;
  QUERN_ASSIGN(const OpenedModel model, open_model(options.engine));
  ChatSession session(model, {.sampling = options.sampling,
                              .system = options.system,
                              .stop_on_sigint = interactive,
                              .show_timings = !options.quiet});
  if (interactive) return talk(session);

  std::string text = fmt::format("{}", fmt::join(options.prompt, " "));
  if (!terminal && (options.prompt.empty() || stdin_has_text())) {
    QUERN_ASSIGN(std::string piped, read_text("-"));
    while (!piped.empty() && piped.back() == '\n') piped.pop_back();
    text = text.empty() ? piped : piped.empty() ? text : piped + "\n\n" + text;
  }
  if (text.empty()) return invalid_argument("PROMPT: the prompt is empty");
  return session.answer(text);
}

}  // namespace

void add_run(CLI::App& app, ExitCode& exit) {
  const auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("run", "chat in the terminal, or answer once");
  command->add_option("MODEL", options->model, kModelHelp)->required();
  command->add_option("PROMPT", options->prompt, "answered once; what is piped in stands before it");
  command->add_option("--system", options->system, "system message");
  command->add_flag("-q,--quiet", options->quiet, "no timings");
  add_sampling_options(*command, options->sampling);
  add_engine_options(*command, options->engine);
  command->callback([options, command, &exit] { finish(run(*options), *command, exit); });
}

}  // namespace quern::cli
