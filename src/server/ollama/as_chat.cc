#include "server/ollama/as_chat.h"

#include <algorithm>
#include <limits>

#include "base/status.h"
#include "server/foreign/chat_answer.h"
#include "server/foreign/chat_body.h"
#include "server/foreign/plain.h"
#include "server/ollama/answer.h"
#include "server/ollama/request.h"

namespace quern::ollama {
namespace {

class AsChat final : public foreign::Translation {
 public:
  AsChat(AnswerKind kind, std::string path, Json body, const std::string& model, bool shows_thoughts)
      : Translation(std::move(path), std::move(body)),
        kind_(kind),
        model_(model),
        answer_({.include_reasoning = shows_thoughts}) {
    is_stream = this->body["stream"] == true;
  }

  ApiResult<Json> whole(const Json& answer) override {
    if (const auto added = answer_.add(answer); !added) return std::unexpected(added.error());
    return ollama::end(kind_, model_, all_said(answer_.reader()), answer_.finish(), begin_);
  }
  const char* stream_type() const override { return "application/x-ndjson"; }
  ApiResult<std::string> event(const Json& event) override {
    const auto deltas = answer_.add(event);
    if (!deltas) return std::unexpected(deltas.error());
    return lines(*deltas, false);
  }
  ApiResult<std::string> end() override {
    if (!answer_.has_ended()) return std::unexpected(foreign::unfinished());
    return lines({}, true) + dump_json(ollama::end(kind_, model_, {}, answer_.finish(), begin_)) + "\n";
  }

 private:
  std::string lines(const std::vector<PartDelta>& deltas, bool is_end) const {
    std::string text;
    for (const Said& said : new_said(answer_.reader(), deltas, is_end))
      text += dump_json(part(kind_, model_, said)) + "\n";
    return text;
  }

  const AnswerKind kind_;
  const std::string model_;
  const Clock::time_point begin_ = Clock::now();
  foreign::ChatAnswer answer_;
};

class AsEmbeddings final : public foreign::Translation {
 public:
  AsEmbeddings(Json body, const std::string& model, bool is_old)
      : Translation("/v1/embeddings", std::move(body)), model_(model), is_old_(is_old) {}

  ApiResult<Json> whole(const Json& answer) override {
    const Json data = foreign::member(answer, "data");
    const ApiError unread{.status = 502, .message = "the worker's answer has no embeddings", .type = "worker_error"};
    if (!data.is_array()) return std::unexpected(unread);
    Json vectors = Json::array();
    for (const Json& item : data) {
      const auto vector = item.is_object() ? item.find("embedding") : item.end();
      if (vector == item.end() || !vector->is_array()) return std::unexpected(unread);
      vectors.push_back(*vector);
    }
    if (is_old_) {
      if (vectors.size() != 1) return std::unexpected(unread);
      return Json{{"embedding", vectors[0]}};
    }
    Json tokens = foreign::member(foreign::member(answer, "usage"), "prompt_tokens");
    if (!tokens.is_number()) tokens = 0;
    return Json{{"model", model_},
                {"embeddings", std::move(vectors)},
                {"total_duration", std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin_).count()},
                {"load_duration", 0},
                {"prompt_eval_count", std::move(tokens)}};
  }

 private:
  const std::string model_;
  const bool is_old_;
  const Clock::time_point begin_ = Clock::now();
};

// Ollama's clients name a call by its place and its function; OpenAI's answers to calls name its id.
void add_call_ids(Json& turns) {
  int64_t calls = 0, results = 0;
  for (Json& turn : turns) {
    if (turn["role"] == "assistant" && turn.contains("tool_calls")) {
      results = calls;
      for (Json& call : turn["tool_calls"]) {
        if (!call.contains("type")) call["type"] = "function";
        if (!call.contains("id")) call["id"] = fmt::format("call_{}", calls);
        ++calls;
      }
    } else if (turn["role"] == "tool") {
      if (!turn.contains("tool_call_id")) turn["tool_call_id"] = fmt::format("call_{}", results);
      ++results;
    }
  }
}

struct Read {
  foreign::ChatBody chat;
  Options options;
  Request sampling;
  bool shows_thoughts = true;
};

Read begin_read(Fields& fields, const foreign::Asked& asked) {
  Read read;
  fields.accept({"model", "name"});
  accept_residency(fields);
  read.chat.stream = fields.boolean("stream").value_or(true);
  if (const Json* object = fields.object("options")) {
    read.options = read_options(*object, asked.context, read.sampling, fields);
  }
  read.chat.grammar = read_format(fields);
  read.shows_thoughts = read_think(fields, read.chat.template_kwargs);
  refuse_unsupported(fields);
  return read;
}

ApiResult<void> add_sampling(Json& body, const foreign::Asked& asked, const Read& read) {
  const auto options = asked.body.find("options");
  const int64_t room = read.options.num_ctx > 0 ? read.options.num_ctx : std::numeric_limits<int64_t>::max();
  if (read.options.num_predict > 0) body["max_tokens"] = std::min(read.options.num_predict, room);
  foreign::bound_limits(body, asked.context);
  if (!read.sampling.stop.empty()) body["stop"] = read.sampling.stop;
  if (options == asked.body.end() || !options->is_object()) return {};
  for (const auto& item : options->items()) {
    const std::string& name = item.key();
    if (item.value().is_null()) continue;
    if (name == "temperature" || name == "top_p" || name == "seed" || name == "presence_penalty" ||
        name == "frequency_penalty") {
      body[name] = item.value();
    } else if (name == "top_k" || name == "min_p" || name == "typical_p" || name == "repeat_penalty") {
      const std::string_view vllms = name == "repeat_penalty" ? "repetition_penalty" : std::string_view(name);
      if (auto set = set_extra(body, asked, vllms, item.value(), "options." + name); !set) return set;
    }
  }
  return {};
}

Translated finish_read(AnswerKind kind, const foreign::Asked& asked, Read read) {
  auto body = foreign::chat_body(asked, std::move(read.chat));
  if (!body) return std::unexpected(body.error());
  if (const auto added = add_sampling(*body, asked, read); !added) return std::unexpected(added.error());
  return std::make_unique<AsChat>(kind, "/v1/chat/completions", std::move(*body), asked.shown_name,
                                  read.shows_thoughts);
}

// To a request without a prompt: the model is there.
class Loaded final : public foreign::Translation {
 public:
  Loaded(AnswerKind kind, const std::string& model) : Translation("", Json()), kind_(kind), model_(model) {
    answers_itself = true;
  }
  ApiResult<Json> whole(const Json&) override { return loaded(kind_, model_); }

 private:
  const AnswerKind kind_;
  const std::string model_;
};

// `field`: "input" of /api/embed, a string or a list; "prompt" of /api/embeddings, a string.
Translated embed_of(const foreign::Asked& asked, const char* field) {
  const bool is_old = std::string_view(field) == "prompt";
  Fields fields(asked.body);
  fields.accept({"model", "name", "options", "truncate"});
  accept_residency(fields);
  const auto texts = fields.string_or_strings(field, 16384);
  if (!texts || texts->empty() || (is_old && texts->size() != 1)) {
    fields.fault(field, fmt::format("{}: must be {}", field, is_old ? "one string" : "a string or some"));
  }
  const auto dimensions = fields.integer("dimensions", 1, 1 << 20);
  fields.refuse_unknown();
  if (!fields.ok()) return std::unexpected(fields.take_error());
  Json body = {{"model", asked.worker_name}, {"input", *texts}};
  if (dimensions) body["dimensions"] = *dimensions;
  return std::make_unique<AsEmbeddings>(std::move(body), asked.shown_name, is_old);
}

}  // namespace

Translated chat_as_chat(const foreign::Asked& asked) {
  Fields fields(asked.body);
  Read read = begin_read(fields, asked);
  const Json* messages = fields.array("messages");
  ToolList tools = read_tools(fields);
  fields.refuse_unknown();
  if (!fields.ok()) return std::unexpected(fields.take_error());
  if (read.options.num_predict == 0 || messages == nullptr || messages->empty())
    return std::make_unique<Loaded>(AnswerKind::kChat, asked.shown_name);
  auto turns = read_turns(*messages);
  if (!turns) return std::unexpected(turns.error());
  add_call_ids(*turns);
  read.chat.continue_final_message = turns->back()["role"] == "assistant";
  read.chat.messages = std::move(*turns);
  read.chat.tools = std::move(tools.shown);
  return finish_read(AnswerKind::kChat, asked, std::move(read));
}

Translated generate_as_chat(const foreign::Asked& asked) {
  Fields fields(asked.body);
  Read read = begin_read(fields, asked);
  const auto prompt = fields.string("prompt").value_or("");
  const auto system = fields.string("system").value_or("");
  const bool raw = fields.boolean("raw").value_or(false);
  if (raw && !system.empty()) fields.fault("system", "system: not together with raw");
  if (raw && fields.any("think") != nullptr) fields.fault("think", "think: not together with raw");
  fields.refuse_unknown();
  if (!fields.ok()) return std::unexpected(fields.take_error());
  if (read.options.num_predict == 0 || prompt.empty())
    return std::make_unique<Loaded>(AnswerKind::kGenerate, asked.shown_name);
  read.chat.messages = Json::array();
  if (!system.empty()) read.chat.messages.push_back({{"role", "system"}, {"content", system}});
  read.chat.messages.push_back({{"role", "user"}, {"content", prompt}});
  if (!raw) return finish_read(AnswerKind::kGenerate, asked, std::move(read));
  auto body = foreign::chat_body(asked, read.chat);
  if (!body) return std::unexpected(body.error());
  body->erase("messages");
  (*body)["prompt"] = prompt;
  if (const auto added = add_sampling(*body, asked, read); !added) return std::unexpected(added.error());
  return std::make_unique<AsChat>(AnswerKind::kGenerate, "/v1/completions", std::move(*body), asked.shown_name, true);
}

Translated embed_as_embeddings(const foreign::Asked& asked) {
  return embed_of(asked, "input");
}

Translated embeddings_as_embeddings(const foreign::Asked& asked) {
  return embed_of(asked, "prompt");
}

}  // namespace quern::ollama
