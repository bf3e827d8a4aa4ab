// Beast's message to ours. Internal to server/http.
#pragma once

#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>

#include "server/http/message.h"

namespace quern::http {

Request to_request(boost::beast::http::request<boost::beast::http::string_body>&& message);

}  // namespace quern::http
