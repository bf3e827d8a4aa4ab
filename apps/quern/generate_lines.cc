#include "generate_lines.h"

#include <condition_variable>
#include <cstdio>
#include <deque>
#include <mutex>
#include <thread>

#include "answer.h"
#include "base/status.h"
#include "grammar_options.h"
#include "input.h"

namespace quern::cli {
namespace {

// A request on its way: a stream to read, or the error it met at the door.
struct Job {
  Json id;
  std::vector<int32_t> prompt_ids;
  int32_t n = 1;
  bool with_logprobs = false;
  Result<std::unique_ptr<EventStream>> stream = nullptr;
};

constexpr size_t kJobsMax = 64;  // read ahead; within what the engine's queue takes

// Hands jobs from the thread that reads lines to the one that prints answers.
class JobQueue {
 public:
  void push(Job job) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return jobs_.size() < kJobsMax; });
    jobs_.push_back(std::move(job));
    changed_.notify_all();
  }
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }
  std::optional<Job> pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !jobs_.empty() || closed_; });
    if (jobs_.empty()) return std::nullopt;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    changed_.notify_all();
    return job;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;  // guarded by mutex_
  bool closed_ = false;   // guarded by mutex_
};

template <class Value>
Status read_number(const Json& value, const std::string& key, std::optional<Value>& target) {
  const bool fits = std::is_integral_v<Value> ? value.is_number_integer() : value.is_number();
  if (!fits) return invalid_argument(fmt::format("{}: {} is not a number of the right kind", key, dump_json(value)));
  if constexpr (std::is_same_v<Value, int32_t>) {
    const int64_t wide = value.get<int64_t>();
    if (wide != static_cast<int32_t>(wide)) return invalid_argument(fmt::format("{}: {} is out of range", key, wide));
  }
  target = value.get<Value>();
  return {};
}

Status read_ids(const Json& value, const std::string& key, std::vector<int32_t>& ids) {
  if (!value.is_array()) return invalid_argument(fmt::format("{}: not an array of token ids", key));
  for (const Json& item : value) {
    std::optional<int32_t> id;
    QUERN_TRY(read_number(item, key, id));
    ids.push_back(*id);
  }
  return {};
}

Status read_string(const Json& value, const std::string& key, std::string& target) {
  if (!value.is_string()) return invalid_argument(fmt::format("{}: not a string", key));
  target = value.get<std::string>();
  return {};
}

Status read_strings(const Json& value, const std::string& key, std::vector<std::string>& strings) {
  const auto wrong = [&] { return invalid_argument(fmt::format("{}: not a string or an array of strings", key)); };
  strings.clear();
  if (value.is_null()) return {};
  if (value.is_string()) {
    strings.push_back(value.get<std::string>());
    return {};
  }
  if (!value.is_array()) return wrong();
  for (const Json& item : value) {
    if (!item.is_string()) return wrong();
    strings.push_back(item.get<std::string>());
  }
  return {};
}

Status read_logit_bias(const Json& value, std::vector<std::string>& biases) {
  if (!value.is_object()) return invalid_argument("logit_bias: not an object of ids and numbers");
  for (const auto& [id, bias] : value.items()) {
    if (!bias.is_number()) return invalid_argument("logit_bias: not an object of ids and numbers");
    biases.push_back(fmt::format("{}={}", id, bias.get<double>()));
  }
  return {};
}

Status read_flag(const Json& value, const std::string& key, bool& target) {
  if (!value.is_boolean()) return invalid_argument(fmt::format("{}: not true or false", key));
  target = value.get<bool>();
  return {};
}

struct Line {
  SamplingArgs args;
  std::optional<NamedGrammar> grammar;
  std::vector<int32_t> prompt_ids;
  int32_t num_prompts = 0;  // fields that give one
  int32_t n = 1;
  int32_t top_logprobs = 0;
  int32_t priority = 0;
  std::string cache_salt;
};

Status read_prompt_field(const std::string& key, const Json& value, const TextModel& text, Line& line) {
  ++line.num_prompts;
  if (key == "ids") return read_ids(value, key, line.prompt_ids);
  if (key == "prompt") {
    if (!value.is_string()) return invalid_argument("prompt: not a string");
    QUERN_ASSIGN(line.prompt_ids, text.encode_prompt(value.get<std::string>()));
    return {};
  }
  QUERN_ASSIGN(Conversation conversation, parse_conversation(value, key));
  TemplateInput input;
  input.messages = std::move(conversation.messages);
  QUERN_ASSIGN(line.prompt_ids, text.encode_chat(std::move(input)));
  return {};
}

Status read_field(const std::string& key, const Json& value, const TextModel& text, Line& line) {
  SamplingArgs& args = line.args;
  std::optional<int32_t> number;
  if (key == "id") return {};
  if (key == "ids" || key == "prompt" || key == "messages") return read_prompt_field(key, value, text, line);
  if (key == "max_tokens") return read_number(value, key, args.max_tokens);
  if (key == "greedy") return read_flag(value, key, args.greedy);
  if (key == "temperature") return read_number(value, key, args.temperature);
  if (key == "top_k") return read_number(value, key, args.top_k);
  if (key == "top_p") return read_number(value, key, args.top_p);
  if (key == "min_p") return read_number(value, key, args.min_p);
  if (key == "typical" || key == "typical_p") return read_number(value, key, args.typical_p);
  if (key == "repetition_penalty" || key == "repeat_penalty") return read_number(value, key, args.repetition_penalty);
  if (key == "presence_penalty") return read_number(value, key, args.presence_penalty);
  if (key == "frequency_penalty") return read_number(value, key, args.frequency_penalty);
  if (key == "logit_bias") return read_logit_bias(value, args.logit_bias);
  if (key == "seed") return read_number(value, key, args.seed);
  if (key == "stop") return read_strings(value, key, args.stop);
  if (key == "ignore_eos") return read_flag(value, key, args.ignore_eos);
  if (key == "keep_special") return read_flag(value, key, args.keep_special);
  for (const FloatOption& option : float_options()) {
    if (key == option.name) return read_number(value, key, args.*option.value);
  }
  for (const IntegerOption& option : integer_options()) {
    if (key == option.name) return read_number(value, key, args.*option.value);
  }
  for (const StringsOption& option : strings_options()) {
    if (key == option.name) return read_strings(value, key, args.*option.value);
  }
  if (key == "speculation") return read_string(value, key, args.speculation.emplace());
  if (key == "lora") return read_string(value, key, args.adapter);
  if (key == "cache_salt") return read_string(value, key, line.cache_salt);
  if (key == "allowed_ids" || key == "stop_ids") {
    std::vector<int32_t> ids;
    QUERN_TRY(read_ids(value, key, ids));
    (key == "stop_ids" ? args.stop_ids : args.allowed_ids) = fmt::format("{}", fmt::join(ids, ","));
    return {};
  }
  if (key == "n" || key == "top_logprobs" || key == "priority") {
    QUERN_TRY(read_number(value, key, number));
    (key == "n" ? line.n : key == "priority" ? line.priority : line.top_logprobs) = *number;
    return {};
  }
  if (key == "json_schema" || key == "json_object" || key == "regex" || key == "choice" || key == "grammar") {
    QUERN_ASSIGN(line.grammar, read_grammar_field(key, value));
    return {};
  }
  return invalid_argument(fmt::format("{}: unknown field", key));
}

Result<std::unique_ptr<EventStream>> submit(const Json& json, const OpenedModel& model, const SamplingArgs& fallback,
                                            const std::shared_ptr<const Grammar>& grammar, Job& job) {
  if (!json.is_object()) return invalid_argument("a request is a JSON object");
  if (const auto id = json.find("id"); id != json.end()) job.id = *id;
  Line line{.args = fallback, .grammar = std::nullopt, .prompt_ids = {}};
  for (const auto& [key, value] : json.items()) QUERN_TRY(read_field(key, value, *model.text, line));
  if (line.num_prompts != 1) return invalid_argument("a request has one of ids, prompt, messages");
  QUERN_ASSIGN(Request request, make_request(line.args, model.text->defaults(), {}));
  job.prompt_ids = line.prompt_ids;
  job.n = line.n;
  job.with_logprobs = line.top_logprobs > 0;
  request.prompt_ids = std::move(line.prompt_ids);
  request.n = line.n;
  request.top_logprobs = line.top_logprobs;
  request.priority = line.priority;
  request.grammar = grammar;
  if (line.grammar) {
    QUERN_ASSIGN(request.grammar, compile(*model.engine, *line.grammar));
  }
  request.cache_salt = std::move(line.cache_salt);
  return model.engine->submit(std::move(request));
}

void print_answers(JobQueue& jobs) {
  while (auto job = jobs.pop()) {
    Json line;
    Result<std::vector<Answer>> answers;
    if (job->stream)
      answers = read_answers(**job->stream, job->n, nullptr);
    else
      answers = std::unexpected(job->stream.error());
    if (answers) {
      line = answers_json(job->prompt_ids, *answers, job->with_logprobs);
    } else {
      line = {{"error", {{"code", error_code_name(answers.error().code)}, {"message", answers.error().message}}}};
    }
    if (!job->id.is_null()) line["id"] = std::move(job->id);
    std::printf("%s\n", dump_json(line).c_str());
    std::fflush(stdout);
  }
}

}  // namespace

Status generate_lines(const OpenedModel& model, const SamplingArgs& fallback,
                      const std::shared_ptr<const Grammar>& grammar) {
  JobQueue jobs;
  std::thread printer([&jobs] { print_answers(jobs); });
  Status read;
  for (std::string text;;) {
    const auto more = read_stdin_line(text);
    if (!more) read = std::unexpected(more.error());
    if (!more || !*more) break;
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    Job job;
    if (auto json = parse_json(text, "the line")) {
      job.stream = submit(*json, model, fallback, grammar, job);
    } else {
      job.stream = std::unexpected(json.error());
    }
    jobs.push(std::move(job));
  }
  jobs.close();
  printer.join();
  return read;
}

}  // namespace quern::cli
