// Beast's message to ours. Internal to server/http.
#pragma once

#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>
#include <string_view>

#include "server/http/message.h"

namespace quern::http {

Request to_request(boost::beast::http::request<boost::beast::http::string_body>&& message);

// The target in the first line of a request, as far as it came: "/v1/models" of "GET /v1/models HTTP/1.1…". Empty when
// no path stands there.
std::string_view target_in(std::string_view bytes);

}  // namespace quern::http
