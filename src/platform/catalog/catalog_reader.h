// Our own form of a model's description (data/catalog/schema.json), read with bounds.
#pragma once

#include <string>
#include <string_view>

#include "platform/catalog/catalog.h"
#include "platform/catalog/json_fields.h"

namespace quern {

// Where a document came from: the built-in ones may not name files of this machine.
enum class CatalogOrigin : uint8_t { kBuiltIn, kCustom };

// Errors: kInvalidArgument naming the field.
Result<CatalogModel> read_catalog_model(const JsonFields& fields, CatalogOrigin origin);

// What every form must keep: names and tags that are safe as file names, at least one variant, each with a source, no
// tag twice. `fields` only names the place.
Status check_catalog_model(const JsonFields& fields, const CatalogModel& model);

// Both checked: kInvalidArgument under `key`. A path is absolute; a URL is https, or http to this machine, and ends in
// .gguf.
Result<ModelFileSource> path_source(const JsonFields& fields, std::string_view key, const std::string& path);
Result<ModelFileSource> url_source(const JsonFields& fields, std::string_view key, const std::string& url);
Result<ModelFileSource> hub_source(const JsonFields& fields, std::string_view key, SourceKind kind, SourcePart part);

// A variant for each quantisation: {quantization} in repositories and files is replaced.
std::string with_quantization(std::string text, std::string_view quantization);
std::string lower_case(std::string_view text);
bool same_name(std::string_view a, std::string_view b);  // without regard to case
// A letter or digit, then letters, digits, - _ . : at most 100.
bool is_model_name(std::string_view name);

}  // namespace quern
