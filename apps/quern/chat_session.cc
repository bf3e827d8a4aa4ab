#include "chat_session.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdio>

#include "answer.h"
#include "base/status.h"
#include "command.h"

namespace quern::cli {

namespace {

// What chat programs use when a model's makers say nothing: small models ramble at temperature 1 without a cut.
constexpr SamplingOptions chat_sampling() {
  return {.temperature = 0.8f, .top_k = 40, .top_p = 0.95f};
}

const auto kProgramStart = std::chrono::steady_clock::now();

// A file descriptor that is closed at the end.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

int open_sigint() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  return ::signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
}

bool take_signal(int fd) {
  signalfd_siginfo info;
  bool any = false;
  while (fd >= 0 && ::read(fd, &info, sizeof info) == sizeof info) any = true;
  return any;
}

}  // namespace

Result<std::vector<int32_t>> ChatSession::prompt_ids(const std::string& text) const {
  if (!model_.text->has_chat_template()) return model_.text->encode_prompt(text);
  TemplateInput input;
  input.messages = Json::array();
  if (!options_.system.empty()) input.messages.push_back({{"role", "system"}, {"content", options_.system}});
  for (const Json& message : messages_) input.messages.push_back(message);
  input.messages.push_back({{"role", "user"}, {"content", text}});
  return model_.text->encode_chat(std::move(input));
}

Result<bool> ChatSession::write_answer(EventStream& stream, std::string& text, FinishEvent& finish) {
  const Descriptor ready(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const Descriptor sigint(options_.stop_on_sigint ? open_sigint() : -1);
  if (ready.get() < 0) return io_error("run: no event descriptor");
  take_signal(sigint.get());  // one from before this answer is not meant for it
  stream.on_ready([&ready] {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(ready.get(), &one, sizeof one);
  });
  const auto write_piece = [&](const std::string& piece) {
    text += piece;
    std::fwrite(piece.data(), 1, piece.size(), stdout);
    if (!piece.empty()) std::fflush(stdout);
  };
  bool stopped = false;
  for (;;) {
    while (auto event = stream.try_next()) {
      if (event->token) write_piece(event->token->text);
      if (event->finish) {
        write_piece(event->finish->text);
        finish = std::move(*event->finish);
      }
    }
    if (stream.finished()) break;
    pollfd waits[2] = {{.fd = ready.get(), .events = POLLIN, .revents = 0},
                       {.fd = sigint.get(), .events = POLLIN, .revents = 0}};
    ::poll(waits, 2, -1);
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t taken = ::read(ready.get(), &count, sizeof count);
    if (take_signal(sigint.get())) {
      stopped = true;
      stream.cancel();
    }
  }
  stream.on_ready(nullptr);
  if (finish.error) return std::unexpected(*finish.error);
  return stopped;
}

Status ChatSession::answer(const std::string& text) {
  QUERN_ASSIGN(Request request, make_request(options_.sampling, model_.text->defaults(), chat_sampling()));
  auto ids = prompt_ids(text);
  if (!ids) return std::unexpected(with_name(std::move(ids).error(), "text", "PROMPT"));
  request.prompt_ids = std::move(*ids);
  auto stream = model_.engine->submit(std::move(request));
  if (!stream) return std::unexpected(with_name(stream.error(), "prompt_ids", "PROMPT"));
  std::string answer;
  FinishEvent finish;
  QUERN_ASSIGN(const bool stopped, write_answer(**stream, answer, finish));
  std::printf("\n");
  std::fflush(stdout);
  if (options_.show_timings && !stopped) show_timings(finish);
  first_answer_ = false;
  messages_.push_back({{"role", "user"}, {"content", text}});
  messages_.push_back({{"role", "assistant"}, {"content", std::move(answer)}});
  return {};
}

void ChatSession::show_timings(const FinishEvent& finish) const {
  std::string line = fmt::format("[{} prompt tokens, {} of them cached, {:.0f} tokens/s; {} tokens, {:.1f} tokens/s",
                                 finish.prompt_tokens, finish.cached_tokens, prefill_tokens_per_second(finish),
                                 finish.output_tokens, decode_tokens_per_second(finish));
  if (first_answer_) {
    const std::chrono::duration<double> since_start = std::chrono::steady_clock::now() - kProgramStart;
    line += fmt::format("; first token {:.2f} s after the start", since_start.count() - finish.decode_seconds);
  }
  std::fprintf(stderr, "%s]\n", line.c_str());
}

namespace {

template <class Number>
Status assign(std::string_view name, std::string_view value, std::optional<Number>& target) {
  Number number{};
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size()) {
    return invalid_argument(fmt::format("{}: '{}' is not a number", name, value));
  }
  target = number;
  return {};
}

template <class Number>
void describe_number(std::string& out, const char* name, const std::optional<Number>& value) {
  out += value ? fmt::format("  {} {}\n", name, *value) : fmt::format("  {} (not set)\n", name);
}

}  // namespace

Status ChatSession::set(std::string_view assignment) {
  const size_t space = assignment.find(' ');
  const std::string_view name = assignment.substr(0, space);
  const std::string_view value = space == std::string_view::npos ? std::string_view() : assignment.substr(space + 1);
  SamplingArgs changed = options_.sampling;
  if (name == "system") {
    options_.system = value;
    return {};
  }
  if (name == "temperature")
    QUERN_TRY(assign(name, value, changed.temperature));
  else if (name == "top_k")
    QUERN_TRY(assign(name, value, changed.top_k));
  else if (name == "top_p")
    QUERN_TRY(assign(name, value, changed.top_p));
  else if (name == "min_p")
    QUERN_TRY(assign(name, value, changed.min_p));
  else if (name == "repetition_penalty")
    QUERN_TRY(assign(name, value, changed.repetition_penalty));
  else if (name == "max_tokens")
    QUERN_TRY(assign(name, value, changed.max_tokens));
  else if (name == "seed")
    QUERN_TRY(assign(name, value, changed.seed));
  else
    return invalid_argument(fmt::format(
        "'{}' is not one of system, temperature, top_k, top_p, min_p, repetition_penalty, max_tokens, seed", name));
  if (name == "temperature") changed.greedy = false;
  QUERN_TRY(make_request(changed, model_.text->defaults(), chat_sampling()));
  options_.sampling = std::move(changed);
  return {};
}

std::string ChatSession::describe() const {
  const SamplingArgs& args = options_.sampling;
  std::string out = fmt::format("  {}, context {} tokens, {} messages\n", model_.text->id(),
                                model_.engine->max_model_len(), messages_.size());
  out += fmt::format("  system {}\n", options_.system.empty() ? "(not set)" : options_.system);
  if (args.greedy) out += "  greedy\n";
  describe_number(out, "temperature", args.temperature);
  describe_number(out, "top_k", args.top_k);
  describe_number(out, "top_p", args.top_p);
  describe_number(out, "min_p", args.min_p);
  describe_number(out, "repetition_penalty", args.repetition_penalty);
  describe_number(out, "max_tokens", args.max_tokens);
  describe_number(out, "seed", args.seed);
  return out;
}

}  // namespace quern::cli
