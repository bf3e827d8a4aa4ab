// What commands print of models; the catalogue's own facts are in platform/catalog/describe.h.
#pragma once

#include <string>

#include "base/json.h"
#include "platform/store.h"

namespace quern::cli {

std::string size_text(int64_t bytes);  // "4.4 GiB"; negative: "?"
void print_json(const Json& json);     // on stdout

// {"name","path","bytes","source","pulled_at"}
Json stored_json(const StoredModel& model);

}  // namespace quern::cli
