#include "server/platform/describe.h"

#include <algorithm>

#include "platform/catalog/catalog_reader.h"
#include "platform/model_name.h"
#include "server/platform/words.h"

namespace quern::platform {
namespace {

const char* task_of(std::string_view type) {
  if (type == "embedding") return "embed";
  if (type == "rerank") return "rerank";
  if (type == "LLM") return "generate";
  return "other";
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

Json number_or_null(int64_t number) {
  return number > 0 ? Json(number) : Json(nullptr);
}

const CatalogModel* find_named(const Catalog& catalog, const std::string& model_name) {
  const auto name = parse_model_name(model_name);
  return name && name->kind == ModelNameKind::kCatalog ? catalog.find_model(name->name) : nullptr;
}

// What was asked for; an environment may hold secrets.
Json launch_json(const LaunchSpec& spec) {
  Json json = spec.to_json();
  for (auto& item : json["env"].items()) item.value() = "***";
  return json;
}

void add_catalog_words(const CatalogModel* known, Json& json) {
  Json hub = nullptr, revision = nullptr;
  if (known != nullptr && !known->variants.empty() && !known->variants.front().sources.empty()) {
    const ModelFileSource& source = known->variants.front().sources.front();
    hub = hub_word(source.kind);
    if (!source.parts.empty()) revision = text_or_null(source.parts.front().version);
  }
  json["model_hub"] = hub;
  json["model_lang"] = known == nullptr ? Json::array() : Json(known->languages);
  json["language"] = json["model_lang"];
  json["model_description"] = known == nullptr ? "" : known->description;
  json["revision"] = revision;
  json["model_revision"] = revision;
}

Json addresses_of(const ModelView& model) {
  for (const ReplicaView& replica : model.replicas) {
    if (replica.state == ReplicaState::kReady) return text_or_null(replica.address);
  }
  return nullptr;
}

Json openai_fields(const std::string& id, int64_t created, const char* task, Json max_model_len) {
  return {{"id", id},           {"object", "model"},
          {"created", created}, {"owned_by", "quern"},
          {"task", task},       {"max_model_len", std::move(max_model_len)}};
}

void add_lengths(std::string_view type, Json context, int64_t dimensions, Json& json) {
  json["context_length"] = context;
  if (type == "embedding" || type == "rerank") json["max_tokens"] = context;
  if (type == "embedding") json["dimensions"] = number_or_null(dimensions);
  if (type == "rerank") json["type"] = "normal";
}

}  // namespace

std::string_view type_of(const ServedModel& model) {
  switch (model.task) {
    case ModelTask::kGenerate: return "LLM";
    case ModelTask::kEmbed: return "embedding";
    case ModelTask::kRerank: return "rerank";
    case ModelTask::kClassify: return "classify";
  }
  return "LLM";
}

std::vector<std::string> abilities_of(const ServedModel& model) {
  switch (model.task) {
    case ModelTask::kGenerate: break;
    case ModelTask::kEmbed: return {"embed"};
    case ModelTask::kRerank: return {"rerank"};
    case ModelTask::kClassify: return {"classify"};
  }
  std::vector<std::string> abilities = {"generate"};
  if (model.text->has_chat_template()) abilities.emplace_back("chat");
  return abilities;
}

std::vector<std::string> abilities_of(const ModelView& model) {
  std::vector<std::string> words = ability_words(model.abilities);
  // Of files that no catalogue knows: what a chat needs is told by the worker, when one is asked for.
  if (words.empty() && (model.spec.model_type.empty() || model.spec.model_type == "LLM")) words = {"generate", "chat"};
  if (words.empty() && model.spec.model_type == "embedding") words = {"embed"};
  if (words.empty() && model.spec.model_type == "rerank") words = {"rerank"};
  return words;
}

// 0 of "cuda:0"; null: none.
Json device_numbers(const std::vector<std::string>& devices) {
  if (devices.empty()) return nullptr;
  Json numbers = Json::array();
  for (const std::string& id : devices) numbers.push_back(std::atoi(id.c_str() + id.find(':') + 1));
  return numbers;
}

Json describe(const ReplicaView& replica, const ModelView& model) {
  return {{"id", replica.id},
          {"state", replica_state_name(replica.state)},
          {"node", replica.node},
          {"address", text_or_null(replica.address)},
          {"pid", number_or_null(replica.pid)},
          {"restarts", replica.restarts},
          {"in_flight", replica.in_flight},
          {"memory", replica.memory_bytes},
          {"load_seconds", replica.load_seconds},
          {"progress", replica.progress},
          {"message", replica.message},
          {"replica_id", replica_index(replica.id)},
          {"replica_model_uid", replica.id},
          {"replica_uid", nullptr},
          {"worker_address", replica.node},
          {"model_address", text_or_null(replica.address)},
          {"accelerators", replica.devices.empty() ? Json(nullptr) : Json(replica.devices)},
          {"gpu_idx", device_numbers(replica.devices)},
          {"status", replica_word(replica.state)},
          {"created_ts", model.created},
          {"error_message", text_or_null(replica.message)}};
}

Json describe(const ModelView& model, const Catalog& catalog) {
  const LaunchSpec& spec = model.spec;
  const CatalogModel* known = find_named(catalog, spec.model_name);
  std::string type = spec.model_type;
  if (type.empty()) type = known == nullptr ? "LLM" : std::string(model_type_of(known->kind));
  const std::string& format = model.format.empty() ? spec.format : model.format;
  const std::string& quantization = model.quantization.empty() ? spec.quantization : model.quantization;
  const FormatWords words = format_words(format, quantization);
  Json json = openai_fields(spec.uid, model.created, task_of(type), number_or_null(model.context));
  json["model_type"] = type;
  json["address"] = addresses_of(model);
  json["accelerators"] = nullptr;
  json["model_name"] = spec.model_name;
  json["model_engine"] = spec.engine;
  json["model_ability"] = abilities_of(model);
  json["model_format"] = text_or_null(words.format);
  json["model_size_in_billions"] = size_word(model.size.empty() ? spec.size : model.size);
  json["model_family"] = text_or_null(model.family);
  json["quantization"] = words.quantization;
  json["multimodal_projector"] = nullptr;
  add_catalog_words(known, json);
  add_lengths(type, number_or_null(model.context), model.dimensions, json);
  json["replica"] = spec.replicas;
  json["status"] = model_state_name(model.state);
  json["idle"] = model.idle;
  json["progress"] = model.progress;
  json["message"] = model.message;
  json["memory_estimate"] = number_or_null(model.memory_estimate);
  json["launch"] = launch_json(spec);
  Json replicas = Json::array();
  for (const ReplicaView& replica : model.replicas) replicas.push_back(describe(replica, model));
  json["replicas"] = std::move(replicas);
  return json;
}

Json describe(const ServedModel& model) {
  const std::string_view type = type_of(model);
  const FormatWords words = format_words(model.format, lower_case(model.quantization));
  Json json = openai_fields(model.id, model.created, model_task_name(model.task), model.max_model_len());
  json["model_type"] = type;
  json["address"] = nullptr;
  json["accelerators"] = nullptr;
  json["model_name"] = model.id;
  json["model_engine"] = "quern";
  json["model_ability"] = abilities_of(model);
  json["model_format"] = text_or_null(words.format);
  json["model_size_in_billions"] = nullptr;
  json["model_family"] = text_or_null(model.family);
  json["quantization"] = words.quantization;
  json["multimodal_projector"] = nullptr;
  add_catalog_words(nullptr, json);
  add_lengths(type, model.max_model_len(), model.encoder ? model.encoder->width() : 0, json);
  json["replica"] = 1;
  json["status"] = "READY";
  return json;
}

}  // namespace quern::platform
