#include <algorithm>
#include <array>

#include "base/status.h"
#include "server/batches/paging.h"
#include "server/batches/routes.h"
#include "server/fields.h"
#include "server/offload.h"

namespace quern::batches {
namespace {

using http::asio::awaitable;
using people::Scope;

constexpr size_t kLinesMax = 50'000;
constexpr int64_t kWindowSeconds = 24 * 3600;
constexpr std::array<std::string_view, 6> kEndpoints = {"/v1/chat/completions", "/v1/completions", "/v1/embeddings",
                                                        "/v1/responses",        "/v1/rerank",      "/v1/score"};

ApiError no_batch(const std::string& id) {
  return {.status = 404, .message = fmt::format("No batch found with id '{}'.", id), .param = "id"};
}

// A line that can be run later; else the fault.
std::optional<std::string> fault_of(const std::string& text, std::string_view endpoint, std::string& custom_id) {
  const auto line = parse_json(text, "line");
  if (!line) return line.error().message;
  if (!line->is_object()) return "must be an object";
  const auto id = line->find("custom_id");
  if (id == line->end() || !id->is_string() || id->get<std::string>().empty()) return "custom_id: must be a string";
  custom_id = id->get<std::string>();
  if (line->value("method", Json()) != "POST") return "method: must be POST";
  if (line->value("url", Json()) != endpoint) return fmt::format("url: must be {}, as the batch's endpoint", endpoint);
  if (!line->value("body", Json()).is_object()) return "body: must be an object";
  return std::nullopt;
}

ApiResult<std::vector<std::string>> read_lines(const std::string& content, std::string_view endpoint) {
  std::vector<std::string> lines;
  std::vector<std::string> ids;
  size_t number = 0;
  for (size_t begin = 0; begin < content.size();) {
    const size_t end = std::min(content.find('\n', begin), content.size());
    std::string text = content.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (lines.size() == kLinesMax)
      return bad_field("input_file_id", fmt::format("the file has over {} lines", kLinesMax));
    std::string custom_id;
    if (const auto fault = fault_of(text, endpoint, custom_id)) {
      return bad_field("input_file_id", fmt::format("line {}: {}", number, *fault));
    }
    ids.push_back(std::move(custom_id));
    lines.push_back(std::move(text));
  }
  if (lines.empty()) return bad_field("input_file_id", "the file has no lines");
  std::ranges::sort(ids);
  if (const auto twice = std::ranges::adjacent_find(ids); twice != ids.end()) {
    return bad_field("input_file_id", fmt::format("custom_id \"{}\" is there twice", *twice));
  }
  return lines;
}

Json new_batch(const std::string& endpoint, const std::string& file_id, const Json& metadata, size_t num_lines) {
  const int64_t now = unix_seconds();
  Json batch = {{"id", random_id("batch_")},
                {"object", "batch"},
                {"endpoint", endpoint},
                {"errors", nullptr},
                {"input_file_id", file_id},
                {"completion_window", "24h"},
                {"status", "validating"},
                {"output_file_id", nullptr},
                {"error_file_id", nullptr},
                {"created_at", now},
                {"expires_at", now + kWindowSeconds},
                {"request_counts", {{"total", num_lines}, {"completed", 0}, {"failed", 0}}},
                {"metadata", metadata}};
  for (const char* name : {"in_progress_at", "finalizing_at", "completed_at", "failed_at", "expired_at",
                           "cancelling_at", "cancelled_at"}) {
    batch[name] = nullptr;
  }
  return batch;
}

ApiResult<Json> create(BatchStore& store, const http::Request& request) {
  auto body = parse_body(request);
  if (!body) return std::unexpected(body.error());
  Fields fields(*body);
  const auto file_id = fields.string("input_file_id");
  if (!file_id) fields.fault("input_file_id", "input_file_id: is missing");
  const auto endpoint = fields.string("endpoint").value_or("");
  if (std::ranges::find(kEndpoints, endpoint) == kEndpoints.end()) {
    fields.fault("endpoint", fmt::format("endpoint: \"{}\" does not run in batches", endpoint));
  }
  if (fields.string("completion_window").value_or("24h") != "24h") {
    fields.fault("completion_window", "completion_window: must be 24h");
  }
  const Json* metadata = fields.object("metadata");
  fields.refuse_unknown();
  if (!fields.ok()) return std::unexpected(fields.take_error());
  const auto file = store.file(*file_id);
  if (!file) return std::unexpected(to_api_error(file.error()));
  if (!*file) {
    return std::unexpected(
        ApiError{.status = 404, .message = "No such File object: " + *file_id, .param = "input_file_id"});
  }
  if ((*file)->purpose != "batch") return bad_field("input_file_id", "input_file_id: its purpose is not batch");
  const auto content = store.content(*file_id);
  if (!content) return std::unexpected(to_api_error(content.error()));
  const auto lines = read_lines(*content, endpoint);
  if (!lines) return std::unexpected(lines.error());
  const Json batch = new_batch(endpoint, *file_id, metadata == nullptr ? Json(nullptr) : *metadata, lines->size());
  if (const Status added = store.add_batch(batch, *lines); !added) return std::unexpected(to_api_error(added.error()));
  return batch;
}

ApiResult<Json> find(BatchStore& store, const std::string& id) {
  auto batch = store.batch(id);
  if (!batch) return std::unexpected(to_api_error(batch.error()));
  if (!*batch) return std::unexpected(no_batch(id));
  return std::move(**batch);
}

ApiResult<Json> show_batch(BatchStore& store, const http::Request& request) {
  return find(store, request.params[0]);
}

ApiResult<Json> list_batches(BatchStore& store, const http::Request& request) {
  const auto page = read_page(request, 20, 100);
  if (!page) return std::unexpected(page.error());
  auto batches = store.batches(page->after, page->limit + 1);
  if (!batches) return std::unexpected(to_api_error(batches.error()));
  return list_body(std::move(*batches), *page);
}

ApiResult<Json> cancel(BatchStore& store, const http::Request& request) {
  auto batch = find(store, request.params[0]);
  if (!batch) return batch;
  const std::string status = (*batch)["status"].get<std::string>();
  if (status != "validating" && status != "in_progress") {
    return std::unexpected(ApiError{
        .status = 409, .message = fmt::format("Cannot cancel a batch with status '{}'.", status), .param = "id"});
  }
  (*batch)["status"] = "cancelling";
  (*batch)["cancelling_at"] = unix_seconds();
  if (const Status kept = store.update_batch(*batch); !kept) return std::unexpected(to_api_error(kept.error()));
  return batch;
}

using Action = ApiResult<Json> (*)(BatchStore&, const http::Request&);

awaitable<void> act(BatchStore& store, BatchRunner& runner, Action action, const http::Request& request,
                    http::Reply& reply) {
  const std::function<ApiResult<Json>()> run = [&] { return action(store, request); };
  const auto body = co_await offload(run);
  if (!body) co_return co_await send_error(reply, body.error());
  if (request.method == "POST") runner.wake();
  co_await send_json(reply, *body);
}

}  // namespace

Routes batch_routes(BatchStore& store, BatchRunner& runner) {
  const auto route = [&store, &runner](Action action) -> RouteFunction {
    return [&store, &runner, action](const ModelTable&, const http::Request& request,
                                     http::Reply& reply) -> awaitable<void> {
      return act(store, runner, action, request, reply);
    };
  };
  return {
      needs(Scope::kJobsWrite, {"POST", "/v1/batches", route(create)}),
      needs(Scope::kJobsRead, {"GET", "/v1/batches", route(list_batches)}),
      needs(Scope::kJobsRead, {"GET", "/v1/batches/{batch_id}", route(show_batch)}),
      needs(Scope::kJobsWrite, {"POST", "/v1/batches/{batch_id}/cancel", route(cancel)}),
  };
}

}  // namespace quern::batches
