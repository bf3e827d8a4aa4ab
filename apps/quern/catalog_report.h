// What commands say of the catalogue's models: the same facts as JSON and as lines for people.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "platform/catalog/catalog.h"
#include "platform/store.h"
#include "quern/status.h"

namespace quern::cli {

std::string size_text(int64_t bytes);  // "4.4 GiB"; negative: "?"
void print_json(const Json& json);     // on stdout

// {"name","aliases","kind","type","family","license"|null,"description","context"|null,"dimensions"|null,"languages",
//  "abilities","tool_format"|null,"reasoning"|null,"sizes":[{"name","parameters_b",…}],"formats","custom"}
Json model_json(const CatalogModel& model);
// {"name","kind","family","license"|null,"context"|null,"format","quantization"|null,"size"|null,"bytes"|null,
//  "sha256"|null,"description","sources":["hf:…"]}
Json variant_json(const CatalogModel& model, const CatalogVariant& variant);

// {"name","path","bytes","source","pulled_at"}
Json stored_json(const StoredModel& model);

// "hf:org/repo@revision:file" and the like.
std::string source_text(const ModelFileSource& source);

}  // namespace quern::cli
