// /v1/convert_ids_to_tokens: what each token id of a text says.
#include <limits>

#include "base/status.h"
#include "server/fields.h"
#include "server/model_body.h"
#include "server/xinference/routes.h"

namespace quern::xinference {
namespace {

using http::asio::awaitable;

constexpr size_t kIdsMax = 1u << 20;
constexpr size_t kListsMax = 4096;

ApiResult<Json> tokens_of(const ServedModel& model, const Json& list) {
  const Json wrapped = {{"input", list}};
  Fields fields(wrapped);
  const auto ids = fields.integers("input", 0, std::numeric_limits<int32_t>::max(), kIdsMax);
  if (!ids) fields.fault("input", "input: must be token ids");
  if (!fields.ok()) return std::unexpected(fields.take_error());
  const Tokenizer& tokenizer = model.text->tokenizer();
  Json tokens = Json::array();
  for (const int64_t id : *ids) {
    if (id >= tokenizer.vocab_size()) return bad_field("input", fmt::format("input: {} is no token id", id));
    tokens.push_back(tokenizer.piece(static_cast<int32_t>(id)));
  }
  return tokens;
}

ApiResult<Json> convert(const ModelTable& models, const http::Request& request) {
  const auto read = read_model_body(models, request, &ModelTable::find);
  if (!read) return std::unexpected(read.error());
  const auto& [body, model] = *read;
  Fields fields(body);
  fields.accept({"model", "user"});
  const Json* input = fields.array("input");
  if (input == nullptr) fields.fault("input", "input: is missing");
  fields.refuse_unknown();
  if (!fields.ok()) return std::unexpected(fields.take_error());
  if (input->empty() || !input->front().is_array()) return tokens_of(*model, *input);
  if (input->size() > kListsMax) {
    return bad_field("input", fmt::format("input: {} lists are over the limit of {}", input->size(), kListsMax));
  }
  Json lists = Json::array();
  for (const Json& list : *input) {
    auto tokens = tokens_of(*model, list);
    if (!tokens) return std::unexpected(tokens.error());
    lists.push_back(std::move(*tokens));
  }
  return lists;
}

awaitable<void> answer(const ModelTable& models, const http::Request& request, http::Reply& reply) {
  const auto tokens = convert(models, request);
  if (!tokens) co_return co_await send_error(reply, tokens.error());
  co_await send_json(reply, *tokens);
}

}  // namespace

Routes token_routes() {
  return {carried({"POST", "/v1/convert_ids_to_tokens", answer})};
}

}  // namespace quern::xinference
