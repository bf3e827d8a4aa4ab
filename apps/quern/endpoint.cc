#include "endpoint.h"

#include <algorithm>

#include "base/status.h"
#include "platform/home.h"
#include "server/http/percent.h"

namespace quern::cli {
namespace {

constexpr const char* kDefaultUrl = "http://127.0.0.1:9997";
constexpr int64_t kSecondsMax = 120;  // no question that is asked here takes a server longer

std::string url_of(const EndpointOptions& options) {
  std::string url = options.url.empty() ? environment("QUERN_ENDPOINT").value_or(kDefaultUrl) : options.url;
  if (url.find("://") == std::string::npos) url = "http://" + url;
  while (url.ends_with('/')) url.pop_back();
  return url;
}

HttpOptions http_options(const EndpointOptions& options) {
  HttpOptions http;
  http.bearer_token = options.api_key.empty() ? environment("QUERN_API_KEY").value_or("") : options.api_key;
  return http;
}

// What the server says is wrong.
std::string detail_of(const HttpAnswer& answer) {
  const auto body = parse_json(answer.body, "answer");
  if (body && body->is_object() && body->contains("detail") && (*body)["detail"].is_string()) {
    return (*body)["detail"].get<std::string>();
  }
  return fmt::format("the server answered {}", answer.status);
}

Status check(const HttpAnswer& answer) {
  if (answer.status < 300) return {};
  const std::string detail = detail_of(answer);
  if (answer.status == 404) return not_found(detail);
  if (answer.status == 401 || answer.status == 403) return make_error(ErrorCode::kPermissionDenied, detail);
  if (answer.status >= 500 || answer.status == 429 || answer.status == 499) {
    return make_error(ErrorCode::kUnavailable, detail);
  }
  return invalid_argument(detail);
}

}  // namespace

void add_endpoint_options(CLI::App& command, EndpointOptions& options) {
  command.add_option("--endpoint", options.url,
                     std::string("address of the server; else QUERN_ENDPOINT, else ") + kDefaultUrl);
  command.add_option("--api-key", options.api_key, "its key; else QUERN_API_KEY");
}

Result<Json> ask(const EndpointOptions& options, const std::string& method, const std::string& path, const Json& body) {
  HttpCall call{.method = method, .url = url_of(options) + path};
  if (!body.is_null()) call.body = dump_json(body);
  HttpOptions http = http_options(options);
  http.seconds_max = http.stall_seconds_max = kSecondsMax;
  QUERN_ASSIGN(const HttpAnswer answer, http_call(call, http));
  QUERN_TRY(check(answer));
  return parse_json(answer.body, call.url);
}

Result<Json> upload(const EndpointOptions& options, const std::string& name, const std::string& content) {
  std::string boundary = "quern-upload";
  while (content.find("--" + boundary) != std::string::npos) boundary += "-x";
  std::string file_name = name;
  std::replace_if(file_name.begin(), file_name.end(), [](unsigned char c) { return c < 0x20 || c == '"'; }, '_');
  HttpCall call{.method = "POST", .url = url_of(options) + "/v1/files"};
  call.content_type = "multipart/form-data; boundary=" + boundary;
  call.body = fmt::format(
      "--{0}\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--{0}\r\nContent-Disposition: "
      "form-data; name=\"file\"; filename=\"{1}\"\r\n\r\n{2}\r\n--{0}--\r\n",
      boundary, file_name, content);
  HttpOptions http = http_options(options);
  http.stall_seconds_max = kSecondsMax;
  QUERN_ASSIGN(const HttpAnswer answer, http_call(call, http));
  QUERN_TRY(check(answer));
  return parse_json(answer.body, call.url);
}

Status follow(const EndpointOptions& options, const std::string& path, const std::string& accept,
              const HttpSink& sink) {
  const HttpCall call{.method = "GET", .url = url_of(options) + path};
  HttpOptions http = http_options(options);
  http.stall_seconds_max = 0;
  http.headers.push_back("Accept: " + accept);
  QUERN_ASSIGN(const HttpAnswer answer, http_call(call, http, 1 << 20, sink));
  return check(answer);
}

std::string model_path(const std::string& uid, const std::string& rest) {
  return "/v1/models/" + http::percent_encode(uid) + rest;
}

}  // namespace quern::cli
