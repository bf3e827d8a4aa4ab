// What the routes about people share: a run off the I/O threads, JSON of users, keys and tokens.
#pragma once

#include <functional>

#include "platform/people/people.h"
#include "server/route.h"

namespace quern {

// A route whose work waits for the database or a password hash: it runs on a side thread. Null people: 404 with a word.
using PeopleWork = std::function<ApiResult<Json>(people::People&, const http::Request&)>;
RouteFunction people_route(people::People* people, PeopleWork work);

ApiError people_error(const Error& error);  // kPermissionDenied is 403
Json user_json(const people::User& user);
Json key_json(const people::People& people, const people::ApiKey& key);
Json tokens_json(const people::Tokens& tokens);
ApiResult<Json> object_body(const http::Request& request);  // an object

// Who asks, on a route of kKey: a principal is there whenever people are on.
const people::Principal& asker(const http::Request& request);

}  // namespace quern
