// Lists in pages: limit, after, and OpenAI's list object. Internal to server/batches.
#pragma once

#include "server/route.h"

namespace quern {

struct Page {
  int64_t limit = 20;
  std::string after;  // an id; empty: from the newest
};
ApiResult<Page> read_page(const http::Request& request, int64_t limit_default, int64_t limit_max);

// `items`: up to limit + 1 of them; the one too many says that there is more.
Json list_body(std::vector<Json> items, const Page& page);

}  // namespace quern
