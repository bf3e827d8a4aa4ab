#include "server/route.h"

#include <chrono>
#include <random>

#include "base/status.h"

namespace quern {

using http::asio::awaitable;

Route traced(Route route) {
  route.traced = true;
  return route;
}

Route needs(people::Scope scope, Route route) {
  route.scope = scope;
  return route;
}

bool may_use_model(const http::Request& request, std::string_view model) {
  return !request.principal || request.principal->may_use(model);
}

std::optional<std::vector<std::string>> match_path(std::string_view pattern, std::string_view path) {
  std::vector<std::string> values;
  while (true) {
    const size_t open = pattern.find('{');
    if (open == std::string_view::npos) {
      if (pattern != path) return std::nullopt;
      return values;
    }
    if (!path.starts_with(pattern.substr(0, open))) return std::nullopt;
    path.remove_prefix(open);
    const size_t close = pattern.find('}', open);
    const bool takes_rest = pattern[close - 1] == '*';
    const size_t end = takes_rest ? path.size() : std::min(path.find('/'), path.size());
    if (end == 0) return std::nullopt;
    values.emplace_back(path.substr(0, end));
    path.remove_prefix(end);
    pattern.remove_prefix(close + 1);
  }
}

awaitable<void> send_json(http::Reply& reply, const Json& body, int status) {
  return reply.send(status, "application/json", dump_json(body), {});
}

awaitable<void> send_error(http::Reply& reply, const ApiError& error, ErrorBody error_body) {
  http::Headers headers;
  if (error.status == 429 || error.status == 503) {
    headers.emplace_back("Retry-After", std::to_string(std::max(1, error.retry_after_s)));
  }
  return reply.send(error.status, "application/json", error_body(error), std::move(headers));
}

ApiResult<Json> parse_body(const http::Request& request) {
  auto body = parse_json(request.body, "request body");
  if (!body) return std::unexpected(to_api_error(body.error()));
  return std::move(*body);
}

ApiResult<std::string> model_name_of(const Json& body) {
  if (!body.is_object()) return std::unexpected(ApiError{.message = "the request body must be a JSON object"});
  const auto name = body.find("model");
  if (name == body.end() || name->is_null()) return std::string();
  if (!name->is_string()) return bad_field("model", "model: must be a string");
  if (name->get_ref<const std::string&>().empty()) return bad_field("model", "model: is empty");
  return name->get<std::string>();
}

std::string random_id(std::string_view prefix) {
  thread_local std::mt19937_64 generator{std::random_device{}()};
  return fmt::format("{}{:016x}{:016x}", prefix, generator(), generator());
}

int64_t unix_seconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

}  // namespace quern
