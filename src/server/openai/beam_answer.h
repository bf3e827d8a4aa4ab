// The answer of a request with use_beam_search.
#pragma once

#include "server/openai/answer.h"
#include "server/openai/job.h"

namespace quern::openai {

http::asio::awaitable<void> answer_beams(const AnswerHead& head, const Job& job, http::Reply& reply);

}  // namespace quern::openai
