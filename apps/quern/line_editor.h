// A line from the terminal, with editing and history (libedit).
#pragma once

#include <filesystem>
#include <memory>
#include <string>

namespace quern::cli {

struct EditorState;  // libedit's handles

class LineEditor {
 public:
  // Lines of earlier sessions are read from `history_file`, and written back by the destructor; an empty path: none.
  explicit LineEditor(std::filesystem::path history_file);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  enum class End { kLine, kEndOfInput, kInterrupted };  // kInterrupted: Ctrl-C; `line` is what stood there
  End read(const std::string& prompt, std::string& line);
  void remember(const std::string& line);

 private:
  std::unique_ptr<EditorState> state_;
};

}  // namespace quern::cli
