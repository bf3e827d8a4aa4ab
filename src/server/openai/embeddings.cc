#include "server/openai/embeddings.h"

#include <bit>
#include <limits>

#include "base/status.h"
#include "server/encode.h"
#include "server/fields.h"
#include "server/model_body.h"
#include "server/offload.h"
#include "text/base64.h"

namespace quern::openai {
namespace {

using http::asio::awaitable;

struct EmbeddingsJob {
  const ServedModel* model = nullptr;
  std::vector<Encoding> inputs;
  int32_t dimensions = 0;  // 0: all
  bool base64 = false;
};

ApiResult<Encoding> encode_ids(const Json& list, std::optional<int32_t> truncation) {
  const Json wrapped = {{"input", list}};
  Fields inner(wrapped);
  const auto ids = inner.integers("input", 0, std::numeric_limits<int32_t>::max(), 1u << 20);
  if (!ids) {
    inner.fault("input", "input: null is no input");
    return std::unexpected(inner.take_error());
  }
  Encoding encoding;
  encoding.ids.assign(ids->begin(), ids->end());
  if (truncation && std::ssize(encoding.ids) > *truncation) encoding.ids.resize(static_cast<size_t>(*truncation));
  encoding.type_ids.assign(encoding.ids.size(), 0);
  return encoding;
}

ApiResult<std::vector<Encoding>> read_input(const Json& input, const ServedModel& model, bool add_special,
                                            std::optional<int32_t> truncation) {
  std::vector<Encoding> encodings;
  const auto add = [&](const Json& item) -> std::optional<ApiError> {
    auto encoding = item.is_string() ? encode_text(model, item.get<std::string>(), add_special, truncation)
                                     : encode_ids(item, truncation);
    if (!encoding) return std::move(encoding).error();
    encodings.push_back(std::move(*encoding));
    return std::nullopt;
  };
  if (input.is_string() || (input.is_array() && !input.empty() && input.front().is_number())) {
    if (auto error = add(input)) return std::unexpected(std::move(*error));
    return encodings;
  }
  if (!input.is_array() || input.empty()) {
    return bad_field("input", "input: must be a string, a list of strings, token ids or lists of token ids");
  }
  if (input.size() > kEncoderInputsMax) {
    return bad_field("input",
                     fmt::format("input: {} inputs are over the limit of {}", input.size(), kEncoderInputsMax));
  }
  for (const Json& item : input) {
    if (auto error = add(item)) return std::unexpected(std::move(*error));
  }
  return encodings;
}

ApiResult<EmbeddingsJob> prepare(const ModelTable& models, const http::Request& request) {
  const auto read = read_model_body(models, request, &ModelTable::find_embedder);
  if (!read) return std::unexpected(read.error());
  const auto& [body, model] = *read;
  EmbeddingsJob job{.model = model, .inputs = {}};
  Fields fields(body);
  // RAGFlow's word to a proxy that may stand between: there is nothing here to drop.
  fields.accept({"model", "user", "drop_params"});
  const Json* input = fields.any("input");
  if (input == nullptr) fields.fault("input", "input: is missing");
  const auto format = fields.string("encoding_format").value_or("float");
  if (format != "float" && format != "base64") {
    fields.fault("encoding_format", "encoding_format: must be float or base64");
  }
  job.base64 = format == "base64";
  job.dimensions = static_cast<int32_t>(fields.integer("dimensions", 1, job.model->encoder->width()).value_or(0));
  const auto truncation = read_truncation(fields, job.model->encoder->tokens_max());
  const bool add_special = fields.boolean("add_special_tokens").value_or(true);
  fields.refuse_unknown();
  if (!fields.ok()) return std::unexpected(fields.take_error());
  auto inputs = read_input(*input, *job.model, add_special, truncation);
  if (!inputs) return std::unexpected(inputs.error());
  job.inputs = std::move(*inputs);
  return job;
}

std::string base64_of(const std::vector<float>& vector) {
  static_assert(std::endian::native == std::endian::little, "clients expect little-endian float32");
  return base64_encode({reinterpret_cast<const char*>(vector.data()), vector.size() * sizeof(float)});
}

std::string answer_text(const EmbeddingsJob& job, EncoderAnswer& answer) {
  Json data = Json::array();
  for (size_t i = 0; i < answer.outputs.size(); ++i) {
    std::vector<float>& vector = answer.outputs[i].embedding;
    shorten_embedding(vector, job.dimensions);
    Json item = {{"object", "embedding"}, {"index", i}};
    item["embedding"] = job.base64 ? Json(base64_of(vector)) : Json(vector);
    data.push_back(std::move(item));
  }
  return dump_json({{"object", "list"},
                    {"data", std::move(data)},
                    {"model", job.model->id},
                    {"usage", {{"prompt_tokens", answer.prompt_tokens}, {"total_tokens", answer.prompt_tokens}}}});
}

}  // namespace

awaitable<void> embeddings(const ModelTable& models, const http::Request& request, http::Reply& reply) {
  const std::function<ApiResult<EmbeddingsJob>()> make_job = [&] { return prepare(models, request); };
  auto job = co_await offload(make_job);
  if (!job) co_return co_await send_error(reply, job.error());
  auto answer = co_await run_encoder(*job->model, std::move(job->inputs), reply);
  if (!answer) {
    if (answer.error().status != 0) co_await send_error(reply, answer.error());
    co_return;
  }
  const std::function<std::string()> make_text = [&] { return answer_text(*job, *answer); };
  std::string text = co_await offload(make_text);
  co_await reply.send(200, "application/json", std::move(text));
}

}  // namespace quern::openai
