#include "serve_models.h"

#include <filesystem>
#include <optional>
#include <set>

#include "base/status.h"
#include "engine/encoder_queue.h"
#include "engine/engine_factory.h"
#include "engine/runner.h"
#include "formats/gguf/gguf_folder.h"
#include "generation_options.h"
#include "model_arg.h"
#include "platform/catalog/catalog.h"
#include "platform/model_name.h"
#include "server/route.h"

namespace quern::cli {
namespace {

namespace fs = std::filesystem;

// The id of a path is its base name without .gguf; of anything else, what the user wrote.
std::string served_id(const ServeModelsOptions& options, const std::string& model) {
  if (options.served_name) return *options.served_name;
  const auto name = parse_model_name(model);
  if (!name || name->kind != ModelNameKind::kPath) return model;
  std::error_code error;
  const fs::path path = fs::path(model).lexically_normal();
  const fs::path last = path.has_filename() ? path : path.parent_path();
  const fs::path named = last.filename() == "." || last.filename() == ".." ? fs::weakly_canonical(last, error) : last;
  const auto gguf = gguf_in_folder(named);
  return gguf && gguf->extension() == ".gguf" ? gguf_model_name(*gguf) : named.filename().string();
}

int64_t bytes_of(const fs::path& path, const ModelSource& source) {
  if (source.gguf) {
    uint64_t bytes = 0;
    for (const TensorView& tensor : source.gguf->tensors()) bytes += tensor.bytes.size();
    // A split set has other files than the one that was named.
    std::error_code error;
    return source.gguf->num_parts() > 1 || fs::is_directory(path, error)
               ? static_cast<int64_t>(bytes)
               : static_cast<int64_t>(fs::file_size(path, error));
  }
  int64_t bytes = 0;
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(path, error)) {
    if (entry.is_regular_file(error)) bytes += static_cast<int64_t>(entry.file_size(error));
  }
  return bytes;
}

// "Q4_K_M" of "model-Q4_K_M.gguf" or "model.q4_k_m.gguf"; empty when the name says nothing.
std::string quantization_of(const fs::path& path) {
  const std::string name = gguf_model_name(path);
  const size_t at = name.find_last_of("-.");
  std::string last = at == std::string::npos ? name : name.substr(at + 1);
  for (char& c : last) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const bool fits = last.size() >= 2 && (last[0] == 'Q' || last.starts_with("IQ") || last == "F16" || last == "F32" ||
                                         last == "BF16" || last.starts_with("MXFP"));
  return fits ? last : "";
}

Result<std::optional<ModelTask>> parse_task(const std::string& text) {
  if (text == "auto") return std::nullopt;
  for (const ModelTask task : {ModelTask::kGenerate, ModelTask::kEmbed, ModelTask::kClassify, ModelTask::kRerank}) {
    if (text == model_task_name(task)) return task;
  }
  return invalid_argument(fmt::format("--task {}: must be auto, generate, embed, classify or rerank", text));
}

struct TaskOption {
  std::string model;  // empty: of all that have none of their own
  std::optional<ModelTask> task;
};

Result<TaskOption> parse_task_option(const std::string& text) {
  const size_t equals = text.rfind('=');
  TaskOption option;
  if (equals == 0) return invalid_argument(fmt::format("--task {}: MODEL is missing before =", text));
  if (equals != std::string::npos) option.model = text.substr(0, equals);
  QUERN_ASSIGN(option.task, parse_task(equals == std::string::npos ? text : text.substr(equals + 1)));
  return option;
}

// What --task says of this model; the last word counts, one that names the model before one that does not.
Result<std::optional<ModelTask>> task_asked(const ServeModelsOptions& options, const std::string& model) {
  std::optional<ModelTask> general, own;
  for (const std::string& text : options.tasks) {
    QUERN_ASSIGN(const TaskOption option, parse_task_option(text));
    if (option.model.empty()) general = option.task;
    if (!option.model.empty() && (option.model == model || option.model == served_id(options, model))) {
      own = option.task;
    }
  }
  return own ? own : general;
}

Status check_tasks(const ServeModelsOptions& options) {
  for (const std::string& text : options.tasks) {
    QUERN_ASSIGN(const TaskOption option, parse_task_option(text));
    std::vector<std::string> ids;
    bool found = option.model.empty();
    for (const std::string& model : options.models) {
      ids.push_back(served_id(options, model));
      found |= option.model == model || option.model == ids.back();
    }
    if (!found)
      return invalid_argument(fmt::format("--task {}: no such MODEL, there is {}", text, fmt::join(ids, ", ")));
  }
  return {};
}

Status check_name(const std::string& model) {
  QUERN_ASSIGN(const ModelName name, parse_model_name(model));
  std::error_code ignored;
  if (name.kind == ModelNameKind::kPath && !fs::exists(name.name, ignored)) {
    return not_found(fmt::format("{}: no such file or folder", model));
  }
  if (name.kind != ModelNameKind::kCatalog) return {};
  QUERN_ASSIGN(const Catalog catalog, Catalog::open());
  QUERN_TRY(catalog.find(name.name, name.tag));
  return {};
}

// The catalogue knows which causal language models are rerankers or embedding models.
std::optional<ModelTask> task_of_catalog(const std::string& model) {
  const auto name = parse_model_name(model);
  if (!name || name->kind != ModelNameKind::kCatalog) return std::nullopt;
  const auto catalog = Catalog::open();
  if (!catalog) return std::nullopt;
  const auto entry = catalog->find(name->name, name->tag);
  if (!entry) return std::nullopt;
  if (entry->model->kind == "rerank") return ModelTask::kRerank;
  if (entry->model->kind == "embedding") return ModelTask::kEmbed;
  return std::nullopt;
}

// A model whose files are open and whose configuration is read; nothing of its weights yet.
struct Opened {
  std::string model;  // as typed
  std::string id;
  std::optional<ModelTask> task;
  fs::path path;
  std::unique_ptr<ModelSource> source;
  ModelConfig config;
};

bool has_tokenizer(const ModelSource& source) {
  if (source.gguf) return source.gguf->metadata().find("tokenizer.ggml.tokens") != nullptr;
  return source.folder->tokenizer_json.has_value();
}

Result<Opened> open_files(const std::string& model, const ServeModelsOptions& options) {
  Opened opened{.model = model, .id = served_id(options, model)};
  QUERN_ASSIGN(opened.task, task_asked(options, model));
  if (!opened.task) opened.task = task_of_catalog(model);
  QUERN_ASSIGN(opened.path, resolve_model(model));
  QUERN_ASSIGN(opened.source, open_model_source(opened.path));
  QUERN_ASSIGN(opened.config, read_model_config(*opened.source));
  if (opened.source->tensors() == nullptr) {
    return not_found(fmt::format("{}: the folder has no weights", opened.path.string()));
  }
  if (!has_tokenizer(*opened.source)) return not_found(fmt::format("{}: there is no tokenizer", opened.path.string()));
  return opened;
}

Result<ServedModel> load(Opened model, const ServeModelsOptions& options, const EngineOptions& engine_options,
                         Metrics& metrics) {
  const std::optional<ModelTask> task = model.task;
  std::unique_ptr<ModelSource> source = std::move(model.source);
  ServedModel served;
  served.created = unix_seconds();
  served.source = model.model;
  served.id = model.id;
  served.file_bytes = bytes_of(model.path, *source);
  served.format = source->gguf ? "gguf" : "safetensors";
  served.family = model.config.family;
  served.quantization = source->gguf ? quantization_of(model.path) : "";
  const bool encodes = is_encoding_source(*source);
  if (encodes ? task != ModelTask::kGenerate : task && task != ModelTask::kGenerate) {
    QUERN_ASSIGN(const Precision precision, parse_precision(options.engine.precision));
    QUERN_ASSIGN(served.text, TextModel::create(*source));
    const EncoderOptions encoder{.device = options.engine.device,
                                 .precision = precision,
                                 .quantization = options.engine.quantization,
                                 .num_threads = options.engine.num_threads,
                                 .on_note = engine_options.on_note};
    QUERN_ASSIGN(served.encoder, EncoderQueue::create(std::move(source), encoder, {}, task == ModelTask::kRerank));
    served.task = served.encoder->task() == EncoderTask::kEmbed      ? ModelTask::kEmbed
                  : served.encoder->task() == EncoderTask::kClassify ? ModelTask::kClassify
                                                                     : ModelTask::kRerank;
    return served;
  }
  source.reset();
  EngineOptions engine = engine_options;
  engine.model_path = model.path;
  QUERN_ASSIGN(OpenedModel opened, open_model(engine));
  served.text = std::move(opened.text);
  QUERN_ASSIGN(served.output, tools::choose_output_format(served.text->chat_template_text().value_or(""),
                                                          options.tool_call_parser, options.reasoning_parser));
  served.engine = metrics.observe(std::move(opened.engine), served.id);
  return served;
}

}  // namespace

Status check_models(const ServeModelsOptions& options) {
  if (options.models.empty()) return invalid_argument("MODEL: name at least one");
  if (options.served_name && options.served_name->empty()) return invalid_argument("--served-model-name: is empty");
  if (options.served_name && options.models.size() > 1) {
    return invalid_argument("--served-model-name: only with one MODEL");
  }
  std::set<std::string> ids;
  for (const std::string& model : options.models) {
    QUERN_TRY(check_name(model));
    const std::string id = served_id(options, model);
    if (!ids.insert(id).second) return invalid_argument(fmt::format("{}: another MODEL has the id {} too", model, id));
  }
  QUERN_TRY(runner_options(options.engine));
  QUERN_TRY(tools::choose_output_format("", options.tool_call_parser, options.reasoning_parser));
  return check_tasks(options);
}

Status load_models(const ServeModelsOptions& options, Metrics& metrics, const Log& log, ModelTable& table) {
  QUERN_TRY(check_models(options));
  std::vector<Opened> opened;
  for (const std::string& name : options.models) {
    QUERN_ASSIGN(Opened model, open_files(name, options));
    opened.push_back(std::move(model));
  }
  // Said at the end: a model that is refused leaves one line on stderr, its own.
  const auto notes = std::make_shared<std::vector<std::string>>();
  EngineOptions engine = options.engine;
  engine.on_note = [notes](const std::string& note) { notes->push_back(note); };
  std::vector<ServedModel> models;
  for (Opened& one : opened) {
    QUERN_ASSIGN(ServedModel model, load(std::move(one), options, engine, metrics));
    models.push_back(std::move(model));
  }
  for (const std::string& note : *notes) log.write(LogLevel::kWarning, note);
  for (ServedModel& model : models) {
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
