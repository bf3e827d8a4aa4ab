#include "server/paging.h"

#include <charconv>

#include "base/status.h"

namespace quern {

ApiResult<Page> read_page(const http::Request& request, int64_t limit_default, int64_t limit_max) {
  Page page{.limit = limit_default, .after = std::string(request.query_value("after").value_or(""))};
  if (const auto text = request.query_value("limit")) {
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), page.limit);
    if (error != std::errc() || end != text->data() + text->size() || page.limit < 1 || page.limit > limit_max) {
      return bad_field("limit", fmt::format("limit: must be 1 to {}", limit_max));
    }
  }
  return page;
}

Json list_body(std::vector<Json> items, const Page& page) {
  const bool has_more = std::ssize(items) > page.limit;
  if (has_more) items.resize(static_cast<size_t>(page.limit));
  const Json first = items.empty() ? Json(nullptr) : items.front()["id"];
  const Json last = items.empty() ? Json(nullptr) : items.back()["id"];
  return {{"object", "list"}, {"data", items}, {"first_id", first}, {"last_id", last}, {"has_more", has_more}};
}

}  // namespace quern
