#include "line_editor.h"

#include <histedit.h>

#include <clocale>
#include <cstdio>
#include <system_error>

namespace quern::cli {

struct EditorState {
  EditLine* editor = nullptr;
  History* history = nullptr;
  HistEvent event = {};
  std::filesystem::path history_file;
  std::string prompt;
  bool interrupted = false;
};

namespace {

constexpr int kHistoryLines = 1000;

EditorState* state_of(EditLine* editor) {
  void* data = nullptr;
  el_get(editor, EL_CLIENTDATA, &data);
  return static_cast<EditorState*>(data);
}

char* prompt_of(EditLine* editor) {
  return state_of(editor)->prompt.data();
}

unsigned char on_interrupt(EditLine* editor, int) {
  state_of(editor)->interrupted = true;
  return CC_NEWLINE;
}

}  // namespace

LineEditor::LineEditor(std::filesystem::path history_file) : state_(std::make_unique<EditorState>()) {
  // Without a UTF-8 locale libedit takes every byte for a character.
  if (const char* locale = std::setlocale(LC_CTYPE, "");
      locale == nullptr || std::string(locale).find("UTF-8") == std::string::npos) {
    std::setlocale(LC_CTYPE, "C.UTF-8");
  }
  state_->history_file = std::move(history_file);
  state_->history = history_init();
  history(state_->history, &state_->event, H_SETSIZE, kHistoryLines);
  history(state_->history, &state_->event, H_SETUNIQUE, 1);
  if (!state_->history_file.empty()) history(state_->history, &state_->event, H_LOAD, state_->history_file.c_str());
  state_->editor = el_init("quern", stdin, stdout, stderr);
  el_set(state_->editor, EL_CLIENTDATA, state_.get());
  el_set(state_->editor, EL_PROMPT, prompt_of);
  el_set(state_->editor, EL_EDITOR, "emacs");
  el_set(state_->editor, EL_HIST, history, state_->history);
  // Ctrl-C is a key here, not a signal: a half-typed line must not end the program.
  el_set(state_->editor, EL_SETTY, "-d", "-isig", nullptr);
  el_set(state_->editor, EL_ADDFN, "quern-interrupt", "give the line up", on_interrupt);
  el_set(state_->editor, EL_BIND, "^C", "quern-interrupt", nullptr);
}

LineEditor::~LineEditor() {
  if (!state_->history_file.empty()) {
    std::error_code ignored;  // a history that cannot be kept is no reason to complain
    std::filesystem::create_directories(state_->history_file.parent_path(), ignored);
    history(state_->history, &state_->event, H_SAVE, state_->history_file.c_str());
  }
  el_end(state_->editor);
  history_end(state_->history);
}

LineEditor::End LineEditor::read(const std::string& prompt, std::string& line) {
  state_->prompt = prompt;
  state_->interrupted = false;
  int count = 0;
  const char* text = el_gets(state_->editor, &count);
  if (text == nullptr || count <= 0) return End::kEndOfInput;
  line.assign(text, static_cast<size_t>(count));
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
  return state_->interrupted ? End::kInterrupted : End::kLine;
}

void LineEditor::remember(const std::string& line) {
  if (!line.empty()) history(state_->history, &state_->event, H_ENTER, line.c_str());
}

}  // namespace quern::cli
