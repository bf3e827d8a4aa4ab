// How much memory a model of the catalogue takes here: from its files when they are on this machine, from the
// catalogue's numbers otherwise. Nothing is pulled.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "engine/memory_estimate.h"
#include "platform/catalog/catalog.h"
#include "quern/engine.h"
#include "quern/status.h"

namespace quern {

struct ModelEstimate {
  MemoryEstimate memory;
  std::filesystem::path path;  // of the files that were read; empty: from the catalogue's numbers
};

// `model` is what a user types where a command says MODEL. `quantization`: instead of the variant's own ("q8_0"), where
// the catalogue has it. Errors: those of finding the model and of estimate_memory(); kUnsupported when neither files
// nor numbers are here.
Result<ModelEstimate> estimate_model(const std::string& model, const std::string& quantization,
                                     const EngineOptions& options);
Result<ModelEstimate> estimate_variant(const CatalogModel& model, const CatalogVariant& variant,
                                       const EngineOptions& options);

// Of all its weights, before it is pulled; 0: unknown.
int64_t weight_bytes(const CatalogModel& model, const CatalogVariant& variant);

// Bits of a weight on the average of a model, by the name of its quantisation; 0: unknown. The GGUF ones are those that
// llama.cpp's quantiser gives for Llama 3.1 8B.
double bits_per_weight(std::string_view quantization);

}  // namespace quern
