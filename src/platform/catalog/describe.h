// What the catalogue knows, as JSON: the same facts for the command line and for HTTP.
#pragma once

#include <string>

#include "base/json.h"
#include "platform/catalog/catalog.h"
#include "platform/catalog/engines.h"
#include "platform/catalog/estimate.h"

namespace quern {

// {"name","aliases","kind","type","family","license"|null,"description","context"|null,"dimensions"|null,"languages",
//  "abilities","tool_format"|null,"reasoning"|null,"sizes":[{"name","parameters_b",…}],"formats","custom"}
Json catalog_model_json(const CatalogModel& model);
// {"name","kind","family","license"|null,"context"|null,"format","quantization"|null,"size"|null,"bytes"|null,
//  "sha256"|null,"description","sources":["hf:…"]}
Json catalog_variant_json(const CatalogModel& model, const CatalogVariant& variant);
// {"engine","runs","reason"|null,"program"|null,"variants":[{"tag","format","runs","reason"|null,"note"|null}]}
Json engine_check_json(const EngineCheck& check);
// {"weights","weights_mapped","kv_cache","activations","overhead","total","available","max_model_len",
//  "kv_bytes_per_token"}: bytes and tokens; "available": memory that is free now.
Json memory_json(const MemoryEstimate& memory);

// "hf:org/repo@revision:file" and the like.
std::string catalog_source_text(const ModelFileSource& source);

}  // namespace quern
