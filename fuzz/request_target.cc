#include "base/check.h"
#include "server/openai/request.h"
#include "targets.h"

namespace quern::fuzz {
namespace {

void check_api_error(const ApiError& error) {
  QUERN_CHECK(error.status >= 400 && error.status < 500);
  QUERN_CHECK(!error.message.empty());
  const auto body = parse_json(openai_error_body(error), "error body");
  QUERN_CHECK(body.has_value());
}

}  // namespace

void run_request(std::string_view body) {
  const auto json = parse_json(body, "request body");
  if (!json) return check_refusal(json.error());
  const SamplingOptions defaults;
  if (auto chat = openai::parse_chat_request(*json, defaults); !chat) check_api_error(chat.error());
  if (auto completion = openai::parse_completion_request(*json, defaults); !completion) {
    check_api_error(completion.error());
  }
}

}  // namespace quern::fuzz
