// What Xinference's clients call things. Source: xinference/model/*/core.py and model_spec.json, 3.2.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "platform/catalog/catalog.h"
#include "platform/fleet/fleet.h"

namespace quern::platform {

struct FormatWords {
  std::string format;        // "ggufv2", "pytorch", "awq", "gptq", "fp8", "mlx" …
  std::string quantization;  // "q4_k_m", "Int4", "none"
};
// launch_spec_from_json() reads them back as what they were.
FormatWords format_words(std::string_view format, std::string_view quantization);

// 7 for "7b", "0_5" for "0.5b", "0_135" for "135m"; null where the text says no size.
Json size_word(std::string_view size);
Json size_word(double billions);

std::vector<std::string> ability_words(const std::vector<std::string>& abilities);

// "huggingface", "modelscope", "pypi", "local", "url".
std::string_view hub_word(SourceKind kind);

// Of a replica: "CREATING", "LOADING", "READY", "ERROR", "TERMINATING", "TERMINATED".
std::string_view replica_word(ReplicaState state);

// "LLM" by any spelling, as model_type_of() writes it; empty: none of the types.
std::string_view type_word(std::string_view type);

// "NAME--0_5B--ggufv2--q4_k_m": one variant of a model. Of embeddings and rerankers: without the size.
std::string version_word(const CatalogModel& model, const CatalogVariant& variant);

// 1 of "UID-1"; -1: no such id.
int64_t replica_index(const std::string& replica_id);

}  // namespace quern::platform
