// The body of a request and the model it names: what most routes read first, since the defaults of fields depend on it.
#pragma once

#include <string>

#include "base/json.h"
#include "server/api_error.h"
#include "server/http/message.h"
#include "server/model_table.h"

namespace quern {

struct ModelBody {
  Json body;  // an object
  const ServedModel* model = nullptr;
};

// `find` says what the model must be able to do: &ModelTable::find_generator, …
ApiResult<ModelBody> read_model_body(const ModelTable& models, const http::Request& request,
                                     ApiResult<const ServedModel*> (ModelTable::*find)(const std::string&) const);

// A generator, or one of the LoRA adapters of a generator: a name may be either.
struct GeneratorBody {
  Json body;  // an object
  const ServedModel* model = nullptr;
  std::string adapter;  // of the model; empty: the model itself was asked for
};
ApiResult<GeneratorBody> read_generator_body(const ModelTable& models, const http::Request& request);

}  // namespace quern
