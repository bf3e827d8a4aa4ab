// One route, and what most routes need to answer.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "platform/people/scopes.h"
#include "server/api_error.h"
#include "server/http/message.h"
#include "server/model_table.h"

namespace quern {

using RouteFunction = std::function<http::asio::awaitable<void>(const ModelTable&, const http::Request&, http::Reply&)>;
using ErrorBody = std::string (*)(const ApiError&);  // an error in the shape of a dialect

enum class Access : uint8_t {
  kKey,       // wants an API key when there are any
  kOpen,      // for everybody
  kLiveness,  // for everybody, and answered while models load and while the server stops
};

struct Route {
  std::string method;
  // "/v1/files/{id}/content": {…} stands for one part; {…*} for as many as there are, up to the last place where what
  // stands behind it fits.
  std::string path;
  RouteFunction run;
  Access access = Access::kKey;
  ErrorBody error_body = openai_error_body;
  ErrorBody error_event = openai_error_event;  // the end of a stream that fails
  bool traced = false;                         // a span tells of each request: see traced()
  bool carried = false;                        // see carried()
  bool routine = false;                        // asked all the time by machines: no line in the log
  // What who asks must be allowed, where the server knows people: by default what inference needs; see needs().
  people::Scope scope = people::Scope::kModelsRead;
};
using Routes = std::vector<Route>;

Route traced(Route route);   // one whose requests make a model work; carried() as well
Route carried(Route route);  // one whose body names a model, perhaps of the fleet: then a worker of it answers
Route needs(people::Scope scope, Route route);

// Who asks may use the model: lists leave out the others.
bool may_use_model(const http::Request& request, std::string_view model);

// The values of {…} when `path` fits `pattern`.
std::optional<std::vector<std::string>> match_path(std::string_view pattern, std::string_view path);

http::asio::awaitable<void> send_json(http::Reply& reply, const Json& body, int status = 200);
// With Retry-After for 429 and 503.
http::asio::awaitable<void> send_error(http::Reply& reply, const ApiError& error,
                                       ErrorBody error_body = openai_error_body);

ApiResult<Json> parse_body(const http::Request& request);  // any JSON value
// The field `model` of a body: absent or null is the empty name.
ApiResult<std::string> model_name_of(const Json& body);

// "cmpl-0123…": 128 random bits behind a prefix.
std::string random_id(std::string_view prefix);
int64_t unix_seconds();

}  // namespace quern
