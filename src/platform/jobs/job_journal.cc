// Answers of lines: what counts as one, how it gets into the file of results, and where that goes at the end.
#include <algorithm>

#include "base/status.h"
#include "platform/jobs/job_files.h"
#include "platform/jobs/job_runner.h"

namespace quern {
namespace {

constexpr int32_t kOverloadsMax = 600;  // of a line that meets a server with too much to do
constexpr int64_t kRestMax = 30;        // seconds
constexpr int64_t kNotesMax = 200;      // about lines, in a job's log
constexpr int64_t kRowsAtOnce = 1000;
constexpr std::chrono::seconds kPublishPause{30};

}  // namespace

void JobRunner::take_answers() {
  std::vector<Answer> answers;
  {
    const std::lock_guard lock(mutex_);
    answers.swap(answers_);
  }
  for (Answer& answer : answers) {
    const auto active = active_.find(answer.job);
    if (active == active_.end()) continue;
    auto line = active->second.in_flight.extract(answer.number);
    if (!line.empty()) judge(active->second, std::move(line.mapped()), std::move(answer.answer));
  }
}

// Written, tried again, or left open.
void JobRunner::judge(Active& active, Line line, LineAnswer answer) {
  line.handle.reset();
  const auto again = [&](std::chrono::seconds pause) {
    line.not_before = Clock::now() + pause;
    active.queues[line.place.model].ready.push_front(std::move(line));
  };
  const bool overloaded = answer.status == 429 || answer.status == 503;
  const bool broken = answer.status == 0 || answer.status >= 500;
  if (active.ending && broken) return again(std::chrono::seconds(0));
  if (overloaded && ++line.overloads < kOverloadsMax) {
    Rest& rest = rests_[line.place.model];
    if (rest.until <= Clock::now()) {
      const int64_t seconds = std::min<int64_t>(int64_t{1} << std::min(rest.level++, 5), kRestMax);
      rest.until = Clock::now() + std::chrono::seconds(seconds);
    }
    return again(std::chrono::seconds(0));
  }
  rests_.erase(line.place.model);
  if (broken && !overloaded && line.tries < active.job.spec.retries) {
    ++line.tries;
    if (active.notes++ < kNotesMax) {
      note(active, fmt::format("{}: status {}, tried again", line.custom_id, answer.status));
    }
    return again(std::chrono::seconds(line.tries));
  }
  Written result{.number = line.place.number, .failed = answer.status == 0 || answer.status >= 400, .text = {}};
  result.text = answer.status == 0 || answer.body.empty()
                    ? job_error_line(line.request_id, line.custom_id, "no answer")
                    : job_result_line(line.request_id, line.custom_id, answer.status, answer.body);
  if (result.failed && active.notes++ < kNotesMax) {
    note(active, fmt::format("{}: failed with status {}", line.custom_id, answer.status));
  }
  active.unwritten.push_back(std::move(result));
}

void JobRunner::write_results(Active& active) {
  if (active.unwritten.empty()) return;
  const Status written = append(active);
  complain(written);  // and tried again with the next turn
}

// First the file, then the note: what a crash leaves behind the noted end is overwritten.
Status JobRunner::append(Active& active) {
  std::string text;
  std::vector<AnsweredLine> lines;
  for (const Written& result : active.unwritten) {
    lines.push_back({.number = result.number,
                     .failed = result.failed,
                     .offset = active.results_bytes + std::ssize(text),
                     .bytes = std::ssize(result.text)});
    text += result.text + '\n';
  }
  QUERN_TRY(write_at(folder_of(active) / kJobResultsName, active.results_bytes, text));
  const int64_t end = active.results_bytes + std::ssize(text);
  QUERN_TRY(store_.answered(active.job.id, lines, end));
  active.results_bytes = end;
  active.unwritten.clear();
  return {};
}

// The answers that are wanted, in the order of the input.
Result<std::string> JobRunner::collect(const Active& active, bool failed) {
  std::string text;
  for (int64_t after = -1;;) {
    QUERN_ASSIGN(const auto lines, store_.answered_lines(active.job.id, after, kRowsAtOnce));
    if (lines.empty()) return text;
    for (const AnsweredLine& line : lines) {
      after = line.number;
      if (line.failed != failed) continue;
      QUERN_ASSIGN(const std::string answer, read_at(folder_of(active) / kJobResultsName, line.offset, line.bytes));
      text += answer + '\n';
    }
  }
}

Status JobRunner::put(const Active& active, bool failed, std::string& file_id) {
  const JobView& job = active.job;
  if ((failed ? job.failed : job.done) == 0) return {};
  QUERN_ASSIGN(std::string text, collect(active, failed));
  if (!job.spec.input_path.empty()) {
    return replace_file(failed ? job.spec.error_path : job.spec.output_path, text);
  }
  // Of the job's id: a second try after a crash finds it there.
  const char* what = failed ? "error" : "output";
  file_id = fmt::format("file-{}-{}", job.id, what);
  return options_.keep_file(file_id, fmt::format("{}_{}.jsonl", job.id, what), std::move(text));
}

void JobRunner::publish(Active& active, JobState state, const std::string& message) {
  if (Clock::now() < active.publish_after) return;
  std::string output_id, error_id;
  Status status = put(active, false, output_id);
  if (status) status = put(active, true, error_id);
  if (status) status = store_.publish(active.job.id, state, output_id, error_id, message, job_clock());
  if (!status) {
    active.publish_after = Clock::now() + kPublishPause;
    complain(store_.set_message(active.job.id, "the results cannot be stored: " + status.error().message));
    return complain(status);
  }
  note(active, fmt::format("{}: {}", job_state_name(state), message));
  active.job.published = true;
  std::error_code error;
  std::filesystem::remove_all(folder_of(active), error);
}

}  // namespace quern
