#include "platform/catalog/engines.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/status.h"
#include "engine/kv_sizing.h"
#include "engine/memory_estimate.h"
#include "hardware/inventory/tool_run.h"
#include "platform/catalog/catalog_reader.h"
#include "platform/catalog/engine_version.h"
#include "platform/catalog/estimate.h"
#include "platform/home.h"
#include "platform/pull.h"

namespace quern {
namespace {

namespace fs = std::filesystem;

struct Program {
  std::string_view engine;
  const char* variable;
  const char* name;
  bool takes_folders;  // Hugging Face folders
};
constexpr std::array kPrograms = {Program{"vllm", "QUERN_VLLM", "vllm", true},
                                  Program{"sglang", "QUERN_SGLANG", "sglang", true},
                                  Program{"llama.cpp", "QUERN_LLAMA_SERVER", "llama-server", false}};
constexpr const char* kRemoteVariable = "QUERN_OPENAI_URL";

bool is_text_kind(std::string_view kind) {
  constexpr std::array kinds = {"chat", "completion", "code", "vision", "embedding", "rerank"};
  return std::ranges::find(kinds, kind) != kinds.end();
}

bool is_executable(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0;
}

std::string gib(int64_t bytes) {
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (int64_t{1} << 30));
}

std::string reason_of_memory(const CatalogModel& model, const CatalogVariant& variant, const EngineOptions& options) {
  const auto estimate = estimate_variant(model, variant, options);
  // What is not known before a pull is no reason against it; what the engine itself says of a file that is here, is.
  // Where no more is known than the weights, these must fit.
  if (!estimate) {
    const bool is_known = estimate.error().code != ErrorCode::kUnsupported || find_local(model, variant);
    if (is_known) return estimate.error().message;
  }
  const int64_t needs = estimate ? estimate->memory.total() : weight_bytes(model, variant);
  const int64_t available = available_memory_bytes();
  if (needs <= available) return "";
  return fmt::format("needs {} of memory, {} are free", gib(needs), gib(available));
}

VariantCheck check_ours(const CatalogModel& model, const CatalogVariant& variant, const EngineOptions& options) {
  VariantCheck check{.variant = &variant};
  const std::string& family = model.family_of(variant);
  if (variant.format != "gguf" && variant.format != "safetensors") {
    check.reason = fmt::format("format {} is not read", variant.format);
  } else if (!runs_family(family)) {
    check.reason = fmt::format("architecture {} is not supported", family);
  } else if (variant.format == "safetensors" && !variant.quantization.empty() && variant.quantization != "mxfp4" &&
             bits_per_weight(variant.quantization) < 16) {
    check.reason = fmt::format("safetensors quantised as {} are not read", variant.quantization);
  } else {
    check.reason = reason_of_memory(model, variant, options);
  }
  if (check.reason.empty() && model.kind == "vision") check.note = "text alone: pictures are not seen";
  return check;
}

EngineCheck check_quern(const CatalogModel& model, const std::vector<const CatalogVariant*>& variants,
                        const EngineOptions& options) {
  EngineCheck check{.engine = "quern"};
  if (!is_text_kind(model.kind)) {
    check.reason = fmt::format("models for {} are not run yet", model.kind);
    return check;
  }
  for (const CatalogVariant* variant : variants) check.variants.push_back(check_ours(model, *variant, options));
  return check;
}

EngineCheck check_program(const Program& program, const CatalogModel& model,
                          const std::vector<const CatalogVariant*>& variants) {
  EngineCheck check{.engine = std::string(program.engine)};
  const auto found = find_engine_program(program.engine);
  if (found) check.program = *found;
  if (found) check.version = engine_version(program.engine, *found);
  if (!is_text_kind(model.kind)) {
    check.reason = fmt::format("is not used for {}", model.kind);
  } else if (!found) {
    check.reason = found.error().message;
  }
  if (!check.reason.empty()) return check;
  for (const CatalogVariant* variant : variants) {
    const bool fits = variant->format == "gguf" || (program.takes_folders && variant->format == "safetensors");
    check.variants.push_back(
        {.variant = variant, .reason = fits ? "" : fmt::format("does not read format {}", variant->format)});
  }
  return check;
}

EngineCheck check_remote(const std::vector<const CatalogVariant*>& variants) {
  EngineCheck check{.engine = "openai"};
  if (!environment(kRemoteVariable)) {
    check.reason = fmt::format("needs the URL of a server that has the model ({})", kRemoteVariable);
    return check;
  }
  for (const CatalogVariant* variant : variants) {
    check.variants.push_back({.variant = variant, .note = "if the server at that URL has it"});
  }
  return check;
}

// An engine that can run no variant says why once: the reason they share, or that of the first.
void sum_up(EngineCheck& check) {
  const auto can = [](const VariantCheck& variant) { return variant.reason.empty(); };
  if (!check.reason.empty() || check.variants.empty() || std::ranges::any_of(check.variants, can)) return;
  check.reason = check.variants.front().reason;
}

}  // namespace

Result<std::string> find_engine_program(std::string_view engine) {
  const auto* program = std::ranges::find(kPrograms, engine, &Program::engine);
  if (program == kPrograms.end()) return not_found(fmt::format("{}: no program belongs to this engine", engine));
  if (const auto set = environment(program->variable)) {
    if (is_executable(*set)) return *set;
    return not_found(fmt::format("{} {}: is no program", program->variable, *set));
  }
  std::string found = find_on_path(environment("PATH").value_or(""), program->name);
  if (!found.empty()) return found;
  return not_found(fmt::format("{} is not on PATH, and {} is not set", program->name, program->variable));
}

std::vector<EngineCheck> check_engines(const CatalogModel& model, const std::vector<const CatalogVariant*>& variants,
                                       const EngineOptions& options) {
  std::vector<EngineCheck> checks = {check_quern(model, variants, options)};
  for (const Program& program : kPrograms) checks.push_back(check_program(program, model, variants));
  checks.push_back(check_remote(variants));
  for (EngineCheck& check : checks) sum_up(check);
  return checks;
}

}  // namespace quern
