// A model of the catalogue as Xinference describes a family. Source:
// xinference/model/{llm,embedding,rerank,image,audio} /core.py and custom.py, 3.2.
#pragma once

#include "base/json.h"
#include "platform/catalog/catalog.h"
#include "server/api_error.h"

namespace quern::xinference {

// The catalogue with the registrations of now.
ApiResult<Catalog> open_catalog();

// {"version":2,"model_name",…,"model_specs":[{"model_format","model_size_in_billions","quantization","model_hub",
// "model_id","model_revision","cache_status"}]}: a spec for each variant.
Json family_json(const CatalogModel& model);

// {"model_version","model_file_location","cache_status","model_format","model_size_in_billions","quantization"}.
Json version_json(const CatalogModel& model, const CatalogVariant& variant);

}  // namespace quern::xinference
