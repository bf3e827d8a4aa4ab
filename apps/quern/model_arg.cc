#include "model_arg.h"

#include <unistd.h>

#include <cstdio>

namespace quern::cli {

ProgressBar::~ProgressBar() {
  if (open_line_) std::fputc('\n', stderr);
}

PullProgress ProgressBar::callback() {
  return [this](const std::string& file, int64_t done, int64_t total) { show(file, done, total); };
}

void ProgressBar::show(const std::string& file, int64_t done, int64_t total) {
  const int32_t percent = total > 0 ? static_cast<int32_t>(done * 100 / total) : 0;
  const bool terminal = ::isatty(STDERR_FILENO) != 0;
  const bool due = file != file_ || (terminal ? percent != shown_percent_ : percent >= shown_percent_ + step_percent_);
  if (!due) return;
  if (open_line_ && file != file_) std::fputc('\n', stderr);
  file_ = file;
  shown_percent_ = percent;
  const double mib = static_cast<double>(total) / (1 << 20);
  if (terminal) {
    std::string bar(static_cast<size_t>(percent / 4), '#');
    bar.resize(25, '.');
    std::fprintf(stderr, "\r%s [%s] %3d%% of %.1f MiB", file.c_str(), bar.c_str(), percent, mib);
  } else {
    std::fprintf(stderr, "pulling %s: %d%% of %.1f MiB\n", file.c_str(), percent, mib);
  }
  open_line_ = terminal;
}

Result<std::filesystem::path> resolve_model(const std::string& model) {
  ProgressBar bar;
  return quern::resolve_model(model, bar.callback());
}

}  // namespace quern::cli
