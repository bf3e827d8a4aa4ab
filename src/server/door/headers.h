// What passes the door besides the body: of a request the headers that a worker needs, of an answer those that a client
// may read. Pure.
#pragma once

#include <string>

#include "platform/fleet/fleet.h"
#include "server/door/answer_parser.h"
#include "server/http/message.h"

namespace quern::door {

// Never the client's key, its cookies, or what belongs to its connection. Our own workers are told whose request it is
// (X-Quern-Tenant) and that it can wait (X-Quern-Background): see set_origin().
http::Headers headers_for_worker(const http::Request& request, const http::Reply& reply, const Lease& lease);
http::Headers headers_for_client(const AnswerHead& head);
std::string content_type_of(const AnswerHead& head);
std::string target_of(const http::Request& request);  // path and query, encoded again

}  // namespace quern::door
