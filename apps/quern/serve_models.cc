#include "serve_models.h"

#include <filesystem>
#include <optional>

#include "base/status.h"
#include "engine/encoder_queue.h"
#include "engine/engine_factory.h"
#include "generation_options.h"
#include "model_arg.h"
#include "platform/catalog.h"
#include "platform/model_name.h"
#include "server/route.h"

namespace quern::cli {
namespace {

namespace fs = std::filesystem;

// The id of a path is its base name without .gguf; of anything else, what the user wrote.
std::string served_id(const std::string& model, const TextModel& text) {
  const bool is_path = model.find('/') != std::string::npos || model.ends_with(".gguf");
  return is_path && model.find(':') == std::string::npos ? text.id() : model;
}

int64_t bytes_of(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return static_cast<int64_t>(fs::file_size(path, error));
  int64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(path, error)) {
    if (entry.is_regular_file(error)) bytes += static_cast<int64_t>(entry.file_size(error));
  }
  return bytes;
}

// "Q4_K_M" of "model-Q4_K_M.gguf" or "model.q4_k_m.gguf"; empty when the name says nothing.
std::string quantization_of(const fs::path& path) {
  const std::string name = path.stem().string();
  const size_t at = name.find_last_of("-.");
  std::string last = at == std::string::npos ? name : name.substr(at + 1);
  for (char& c : last) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const bool fits = last.size() >= 2 && (last[0] == 'Q' || last.starts_with("IQ") || last == "F16" || last == "F32" ||
                                         last == "BF16" || last.starts_with("MXFP"));
  return path.extension() == ".gguf" && fits ? last : "";
}

Result<std::optional<ModelTask>> parse_task(const std::string& text) {
  if (text == "auto") return std::nullopt;
  for (const ModelTask task : {ModelTask::kGenerate, ModelTask::kEmbed, ModelTask::kClassify, ModelTask::kRerank}) {
    if (text == model_task_name(task)) return task;
  }
  return invalid_argument(fmt::format("--task {}: must be auto, generate, embed, classify or rerank", text));
}

// What --task says of this model; the last word counts, one that names the model before one that does not.
Result<std::optional<ModelTask>> task_asked(const ServeModelsOptions& options, const std::string& model) {
  std::optional<ModelTask> general, own;
  for (const std::string& text : options.tasks) {
    const size_t equals = text.rfind('=');
    const std::string name = equals == std::string::npos ? "" : text.substr(0, equals);
    QUERN_ASSIGN(const std::optional<ModelTask> task,
                 parse_task(equals == std::string::npos ? text : text.substr(equals + 1)));
    if (name.empty()) general = task;
    if (!name.empty() && name == model) own = task;
  }
  return own ? own : general;
}

// The catalogue knows which causal language models are rerankers or embedding models.
std::optional<ModelTask> task_of_catalog(const std::string& model) {
  const auto name = parse_model_name(model);
  if (!name || name->kind != ModelNameKind::kCatalog) return std::nullopt;
  const auto catalog = Catalog::built_in();
  if (!catalog) return std::nullopt;
  const auto entry = catalog->find(name->name, name->tag);
  if (!entry) return std::nullopt;
  if (entry->model->kind == "rerank") return ModelTask::kRerank;
  if (entry->model->kind == "embedding") return ModelTask::kEmbed;
  return std::nullopt;
}

Result<ServedModel> load(const std::string& model, const ServeModelsOptions& options, Metrics& metrics) {
  QUERN_ASSIGN(auto task, task_asked(options, model));
  if (!task) task = task_of_catalog(model);
  QUERN_ASSIGN(const fs::path path, resolve_model(model));
  ServedModel served;
  served.created = unix_seconds();
  served.source = model;
  QUERN_ASSIGN(auto source, open_model_source(path));
  served.file_bytes = bytes_of(path);
  served.format = source->gguf ? "gguf" : "safetensors";
  QUERN_ASSIGN(const ModelConfig config, read_model_config(*source));
  served.family = config.family;
  served.quantization = quantization_of(path);
  const auto id_of = [&](const TextModel& text) {
    return options.served_name.empty() ? served_id(model, text) : options.served_name;
  };
  const bool encodes = is_encoding_source(*source);
  if (encodes ? task != ModelTask::kGenerate : task && task != ModelTask::kGenerate) {
    QUERN_ASSIGN(const Precision precision, parse_precision(options.engine.precision));
    QUERN_ASSIGN(served.text, TextModel::create(*source));
    served.id = id_of(*served.text);
    const EncoderOptions encoder{
        .device = options.engine.device, .precision = precision, .num_threads = options.engine.num_threads};
    QUERN_ASSIGN(served.encoder, EncoderQueue::create(std::move(source), encoder, {}, task == ModelTask::kRerank));
    served.task = served.encoder->task() == EncoderTask::kEmbed      ? ModelTask::kEmbed
                  : served.encoder->task() == EncoderTask::kClassify ? ModelTask::kClassify
                                                                     : ModelTask::kRerank;
    return served;
  }
  source.reset();
  EngineOptions engine = options.engine;
  engine.model_path = path;
  auto opening = open_model(engine);
  if (!opening) return std::unexpected(in_terms_of_options(opening.error(), ""));
  OpenedModel opened = std::move(*opening);
  served.text = std::move(opened.text);
  served.id = id_of(*served.text);
  QUERN_ASSIGN(served.output, tools::choose_output_format(served.text->chat_template_text().value_or(""),
                                                          options.tool_call_parser, options.reasoning_parser));
  served.engine = metrics.observe(std::move(opened.engine), served.id);
  return served;
}

}  // namespace

Status load_models(const ServeModelsOptions& options, Metrics& metrics, const Log& log, ModelTable& table) {
  if (options.models.empty()) return invalid_argument("serve: name at least one MODEL");
  if (options.models.size() > 1 && !options.served_name.empty()) {
    return invalid_argument("--served-model-name: only with one MODEL");
  }
  for (const std::string& name : options.models) {
    QUERN_ASSIGN(ServedModel model, load(name, options, metrics));
    for (const ServedModel& other : table.models()) {
      if (other.id == model.id) return invalid_argument(fmt::format("{}: named twice", model.id));
    }
    log.write(LogLevel::kInfo,
              fmt::format("loaded {} ({}, context {})", model.id, model_task_name(model.task), model.max_model_len()));
    if (const std::string fault = model.text->chat_template_fault(); !fault.empty()) {
      log.write(LogLevel::kWarning,
                fmt::format("{}: chats are refused, its chat template is broken: {}", model.id, fault));
    }
    table.add(std::move(model));
  }
  return {};
}

}  // namespace quern::cli
