// The models a request names, for keys that are for certain models only.
#pragma once

#include <string>
#include <vector>

#include "server/http/message.h"
#include "server/model_table.h"
#include "server/route.h"

namespace quern {

struct AskedModels {
  bool known = true;  // false: the route makes a model work, and which one cannot be told
  std::vector<std::string> names;
};

// From the path ("/v1/models/{model}"), from a JSON body (`model`, Ollama's `name`, and the adapters of `lora`) or from
// a form. A request that names none means the only model there is.
AskedModels asked_models(const ModelTable& models, const http::Request& request, const Route& route);

}  // namespace quern
