// Bodies of the HTTP dialects, through the routes, tiny models and the answer, as a client's would go.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>

#include "base/check.h"
#include "base/json.h"
#include "engine/engine_factory.h"
#include "seeds.h"
#include "server/app.h"
#include "targets.h"

namespace quern::fuzz {
namespace {

constexpr int32_t kContext = 512;  // tokens: the descriptions of tools take half of them

template <class T>
T must(Result<T> result) {
  QUERN_CHECK(result.has_value());
  return std::move(*result);
}

ServedModel generator() {
  EngineOptions options{
      .model_path = golden_model("llama"), .num_threads = 1, .max_model_len = kContext, .max_num_seqs = 4};
  OpenedModel opened = must(open_model(options));
  ServedModel model;
  model.id = "llama";
  model.text = std::move(opened.text);
  model.engine = std::move(opened.engine);
  model.output = must(tools::choose_output_format("", "hermes", "think"));
  return model;
}

ServedModel encoder(const std::string& id, ModelTask task) {
  auto source = must(open_model_source(golden_model(id)));
  ServedModel model;
  model.id = id;
  model.task = task;
  model.text = must(TextModel::create(*source));
  model.encoder = must(EncoderQueue::create(std::move(source), {.num_threads = 1}, {}, false));
  return model;
}

struct World {
  ModelTable models;
  Metrics metrics;
  Log log{LogFormat::kText, LogLevel::kError};
  std::unique_ptr<App> app;
};

// Made once and never destroyed: its threads may run when the process ends.
App& app() {
  static World* const world = [] {
    auto* made = new World;
    made->models.add(generator());
    made->models.add(encoder("bert", ModelTask::kEmbed));
    made->models.add(encoder("bert_rerank", ModelTask::kClassify));
    made->models.add(encoder("bert_classify", ModelTask::kClassify));
    made->app = must(App::create(made->models, made->metrics, made->log, {.store_path = ":memory:"}));
    made->app->set_ready();
    return made;
  }();
  return *world->app;
}

void check_json(std::string_view text) {
  const auto json = parse_json(text, "answer");
  QUERN_CHECK(json.has_value());
}

// Whole JSON, or lines of a stream: of JSON, or of server-sent events.
void check_answer(const std::string& body) {
  if (parse_json(body, "answer")) return;
  std::string_view rest = body;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.empty() || line.starts_with("event: ") || line == "data: [DONE]") continue;
    if (line.starts_with("data: ")) line.remove_prefix(6);
    check_json(line);
  }
}

int latest_status = 0;

void ask(const char* path, std::string_view body) {
  // Kept: signals that other threads still hold belong to it.
  static auto& context = *new http::asio::io_context;
  DetachedReply reply(context.get_executor());
  http::Request request;
  request.method = "POST";
  request.path = path;
  request.body = body;
  request.id = "fuzz";
  const http::Handler handler = app().handler();
  http::asio::co_spawn(context, handler(request, reply), http::asio::detached);
  context.restart();
  context.run();
  // What a client can send is answered or is the client's mistake.
  QUERN_CHECK(reply.status() >= 200 && reply.status() < 500);
  latest_status = reply.status();
  check_answer(reply.body());
}

// The first byte of `input` chooses the route, the rest is the body.
template <size_t N>
void ask_one_of(const char* const (&paths)[N], std::string_view input) {
  if (input.empty()) return;
  ask(paths[static_cast<unsigned char>(input[0]) % N], input.substr(1));
}

}  // namespace

int last_http_status() {
  return latest_status;
}

void run_http_openai(std::string_view input) {
  constexpr const char* kPaths[] = {"/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize"};
  ask_one_of(kPaths, input);
}

void run_http_encoders(std::string_view input) {
  constexpr const char* kPaths[] = {"/v1/embeddings", "/rerank", "/v2/rerank", "/score", "/classify"};
  ask_one_of(kPaths, input);
}

void run_http_responses(std::string_view body) {
  ask("/v1/responses", body);
}

void run_http_anthropic(std::string_view input) {
  constexpr const char* kPaths[] = {"/v1/messages", "/v1/messages/count_tokens"};
  ask_one_of(kPaths, input);
}

void run_http_ollama(std::string_view input) {
  constexpr const char* kPaths[] = {"/api/chat", "/api/generate", "/api/embed", "/api/embeddings", "/api/show"};
  ask_one_of(kPaths, input);
}

}  // namespace quern::fuzz
