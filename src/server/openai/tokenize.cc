// /tokenize and /detokenize, as vLLM has them.
#include <limits>

#include "base/status.h"
#include "server/fields.h"
#include "server/model_body.h"
#include "server/openai/embeddings.h"
#include "server/openai/request.h"

namespace quern::openai {
namespace {

using http::asio::awaitable;

constexpr size_t kIdsMax = 1u << 20;
constexpr size_t kTextBytesMax = 2u << 20;  // encoding takes more than a hundred times as much memory

ApiResult<std::vector<int32_t>> ids_of_messages(const ServedModel& model, Json body) {
  for (const char* name : {"return_token_strs", "add_special_tokens"}) body.erase(name);
  auto chat = parse_chat_request(body, SamplingOptions());
  if (!chat) return std::unexpected(chat.error());
  TemplateInput input;
  input.messages = std::move(chat->messages);
  input.tools = std::move(chat->tools.shown);
  input.kwargs = std::move(chat->template_kwargs);
  input.add_generation_prompt = chat->add_generation_prompt;
  input.continue_final_message = chat->continue_final_message;
  auto ids = model.text->encode_chat(std::move(input));
  if (!ids) return std::unexpected(to_api_error(ids.error()));
  return std::move(*ids);
}

ApiResult<std::vector<int32_t>> ids_of_prompt(const ServedModel& model, Fields& fields) {
  const auto prompt = fields.string("prompt");
  if (!prompt) fields.fault("prompt", "prompt: is missing");
  const bool add_special = fields.boolean("add_special_tokens").value_or(true);
  fields.accept({"model", "return_token_strs"});
  fields.refuse_unknown();
  if (!fields.ok()) return std::unexpected(fields.take_error());
  if (prompt->size() > kTextBytesMax) {
    return bad_field(
        "prompt", fmt::format("prompt: {} bytes are more than the {} this route takes", prompt->size(), kTextBytesMax));
  }
  auto encoding = model.text->tokenizer().encode(*prompt, {.add_special = add_special, .parse_special = true});
  if (!encoding) return std::unexpected(to_api_error(encoding.error()));
  return std::move(encoding->ids);
}

ApiResult<Json> tokenize_body(const ModelTable& models, const http::Request& request) {
  const auto read = read_model_body(models, request, &ModelTable::find);
  if (!read) return std::unexpected(read.error());
  const auto& [body, model] = *read;
  Fields fields(body);
  const bool with_strings = fields.boolean("return_token_strs").value_or(false);
  if (!fields.ok()) return std::unexpected(fields.take_error());
  auto ids = body.contains("messages") ? ids_of_messages(*model, body) : ids_of_prompt(*model, fields);
  if (!ids) return std::unexpected(ids.error());
  Json strings = nullptr;
  if (with_strings) {
    strings = Json::array();
    for (const int32_t id : *ids) strings.push_back(model->text->tokenizer().piece(id));
  }
  return Json{{"count", ids->size()},
              {"max_model_len", model->max_model_len()},
              {"tokens", *ids},
              {"token_strs", std::move(strings)}};
}

ApiResult<Json> detokenize_body(const ModelTable& models, const http::Request& request) {
  const auto read = read_model_body(models, request, &ModelTable::find);
  if (!read) return std::unexpected(read.error());
  const auto& [body, model] = *read;
  Fields fields(body);
  fields.accept({"model"});
  const auto tokens = fields.integers("tokens", 0, std::numeric_limits<int32_t>::max(), kIdsMax);
  if (!tokens) fields.fault("tokens", "tokens: is missing");
  const bool skip_special = fields.boolean("skip_special_tokens").value_or(false);
  fields.refuse_unknown();
  if (!fields.ok()) return std::unexpected(fields.take_error());
  const std::vector<int32_t> ids(tokens->begin(), tokens->end());
  auto text = model->text->tokenizer().decode(ids, skip_special);
  if (!text) {
    ApiError error = to_api_error(text.error());
    error.param = "tokens";
    return std::unexpected(std::move(error));
  }
  return Json{{"prompt", std::move(*text)}};
}

awaitable<void> answer(ApiResult<Json> body, http::Reply& reply) {
  if (!body) co_return co_await send_error(reply, body.error());
  co_await send_json(reply, *body);
}

}  // namespace

awaitable<void> tokenize(const ModelTable& models, const http::Request& request, http::Reply& reply) {
  return answer(tokenize_body(models, request), reply);
}

awaitable<void> detokenize(const ModelTable& models, const http::Request& request, http::Reply& reply) {
  return answer(detokenize_body(models, request), reply);
}

}  // namespace quern::openai
