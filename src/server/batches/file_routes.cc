#include <algorithm>

#include "base/status.h"
#include "server/batches/routes.h"
#include "server/http/multipart.h"
#include "server/offload.h"
#include "server/paging.h"

namespace quern::batches {
namespace {

using http::asio::awaitable;
using people::Scope;

constexpr int64_t kBytesMax = int64_t{4} << 30;  // of all files together

ApiError no_file(const std::string& id) {
  return {.status = 404, .message = fmt::format("No such File object: {}", id), .param = "id"};
}

Json file_json(const File& file) {
  return {{"id", file.id},
          {"object", "file"},
          {"bytes", file.bytes},
          {"created_at", file.created_at},
          {"filename", file.filename},
          {"purpose", file.purpose},
          {"status", "processed"},
          {"expires_at", nullptr}};
}

ApiResult<Json> upload(FileStore& store, const http::Request& request) {
  const auto parts = http::parse_multipart(request.header("content-type").value_or(""), request.body);
  if (!parts) return std::unexpected(to_api_error(parts.error()));
  const http::FormPart* file = nullptr;
  std::string purpose;
  for (const http::FormPart& part : *parts) {
    if (part.name == "file") {
      file = &part;
    } else if (part.name == "purpose") {
      purpose = std::string(part.body);
    } else {
      return bad_field(part.name, fmt::format("{}: this field is not supported", part.name));
    }
  }
  if (file == nullptr) return bad_field("file", "file: is missing");
  if (purpose != "batch" && purpose != "user_data") {
    return bad_field("purpose", "purpose: must be batch or user_data");
  }
  if (file->filename.size() > 255) return bad_field("file", "file: its name is longer than 255 bytes");
  const auto stored = store.bytes_stored();
  if (!stored) return std::unexpected(to_api_error(stored.error()));
  if (*stored + std::ssize(file->body) > kBytesMax) {
    return std::unexpected(
        ApiError{.status = 429,
                 .message = fmt::format("the files stored here reach the limit of {} bytes", kBytesMax),
                 .type = "rate_limit_error"});
  }
  const auto added = store.add_file(file->filename, purpose, std::string(file->body));
  if (!added) return std::unexpected(to_api_error(added.error()));
  return file_json(*added);
}

ApiResult<Json> show_file(FileStore& store, const http::Request& request) {
  const auto file = store.file(request.params[0]);
  if (!file) return std::unexpected(to_api_error(file.error()));
  if (!*file) return std::unexpected(no_file(request.params[0]));
  return file_json(**file);
}

ApiResult<Json> list_files(FileStore& store, const http::Request& request) {
  const auto page = read_page(request, 10'000, 10'000);
  if (!page) return std::unexpected(page.error());
  const auto files =
      store.files(std::string(request.query_value("purpose").value_or("")), page->after, page->limit + 1);
  if (!files) return std::unexpected(to_api_error(files.error()));
  std::vector<Json> items;
  for (const File& file : *files) items.push_back(file_json(file));
  return list_body(std::move(items), *page);
}

ApiResult<Json> remove(FileStore& store, const http::Request& request) {
  const std::string& id = request.params[0];
  const auto removed = store.remove_file(id);
  if (!removed) return std::unexpected(to_api_error(removed.error()));
  if (!*removed) return std::unexpected(no_file(id));
  return Json{{"id", id}, {"object", "file"}, {"deleted", true}};
}

using Action = ApiResult<Json> (*)(FileStore&, const http::Request&);

awaitable<void> act(FileStore& store, Action action, const http::Request& request, http::Reply& reply) {
  const std::function<ApiResult<Json>()> run = [&] { return action(store, request); };
  const auto body = co_await offload(run);
  if (!body) co_return co_await send_error(reply, body.error());
  co_await send_json(reply, *body);
}

RouteFunction route(FileStore& store, Action action) {
  return [&store, action](const ModelTable&, const http::Request& request, http::Reply& reply) -> awaitable<void> {
    return act(store, action, request, reply);
  };
}

awaitable<void> content(FileStore& store, const http::Request& request, http::Reply& reply) {
  const std::function<Result<std::string>()> read = [&] { return store.content(request.params[0]); };
  auto text = co_await offload(read);
  if (!text) co_return co_await send_error(reply, to_api_error(text.error()));
  co_await reply.send(200, "application/octet-stream", std::move(*text));
}

}  // namespace

Routes file_routes(FileStore& store) {
  const RouteFunction content_route = [&store](const ModelTable&, const http::Request& request,
                                               http::Reply& reply) -> awaitable<void> {
    return content(store, request, reply);
  };
  return {
      needs(Scope::kJobsWrite, {"POST", "/v1/files", route(store, upload)}),
      needs(Scope::kJobsRead, {"GET", "/v1/files", route(store, list_files)}),
      needs(Scope::kJobsRead, {"GET", "/v1/files/{file_id}", route(store, show_file)}),
      needs(Scope::kJobsWrite, {"DELETE", "/v1/files/{file_id}", route(store, remove)}),
      needs(Scope::kJobsRead, {"GET", "/v1/files/{file_id}/content", content_route}),
  };
}

}  // namespace quern::batches
