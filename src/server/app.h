// The routes, and who may use them.
#pragma once

#include <string>
#include <vector>

#include "server/http/server.h"
#include "server/model_table.h"

namespace quern {

struct AppOptions {
  std::vector<std::string> api_keys;  // not empty: every route but /health and the page wants one of them as Bearer
};

// `models` must outlive the handler.
http::Handler make_app(const ModelTable& models, AppOptions options);

}  // namespace quern
