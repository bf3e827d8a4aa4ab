// Which engines can run a model of the catalogue on this machine, and why not.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "platform/catalog/catalog.h"
#include "quern/engine.h"
#include "quern/status.h"

namespace quern {

struct VariantCheck {
  const CatalogVariant* variant = nullptr;
  std::string reason;  // why not, one line; empty: it can
  std::string note;    // of one that can: what to know
};

struct EngineCheck {
  std::string engine;   // "quern", "vllm", "sglang", "llama.cpp", "openai"
  std::string program;  // its path; empty: ours, a remote one, or not installed
  std::string version;  // of the program; empty: not known
  std::string reason;   // why it can run no variant at all; empty: it can run some
  std::vector<VariantCheck> variants;

  bool runs() const { return reason.empty(); }
};

// Of the variants named, all of `model`. `options` are those that the model would be served with. Looks at the disk and
// at the memory that is free now; starts and pulls nothing.
std::vector<EngineCheck> check_engines(const CatalogModel& model, const std::vector<const CatalogVariant*>& variants,
                                       const EngineOptions& options);

// The program of an engine: the variable's value where it is set (QUERN_VLLM, QUERN_SGLANG, QUERN_LLAMA_SERVER), else
// the first of its name on PATH. kNotFound says what was looked for.
Result<std::string> find_engine_program(std::string_view engine);

}  // namespace quern
