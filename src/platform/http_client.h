// HTTP (libcurl): GET for pulling models, small documents into memory, large files to disk with resume; POST of a
// document; any method of an API. Proxy variables and the system's certificates are honoured. Thread-safe: each call
// has its own handle.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "quern/status.h"

namespace quern {

struct HttpOptions {
  std::string bearer_token;          // sent to the first host only, not to where it redirects
  std::vector<std::string> headers;  // "Name: value"
  std::string ca_file;               // PEM of authorities trusted for https; empty: the system's
  std::string pin;                   // "sha256//…": whoever has this public key, and nobody else, is trusted
  bool direct = false;               // without a proxy
  int32_t tries_max = 5;             // for what may pass: cut connections, 429, 5xx; counted anew whenever bytes arrive
  int64_t retry_seconds_max = 60;    // longest wait that a Retry-After can ask for
  int64_t stall_seconds_max = 30;    // less than 1 byte/s for this long counts as cut
  int64_t seconds_max = 0;           // of one try as a whole; 0: as long as bytes arrive
  std::function<bool()> give_up;     // asked about once a second; true ends the try
};

struct HttpDocument {
  std::string body;
  std::string content_type;
  std::string url;  // after redirects
};

// http and https; which of them a source may use is the caller's rule. A redirect never leads from https to http.
// Errors: kNotFound (404, 410), kPermissionDenied (401, 403), kUnavailable (the rest, after the tries),
// kInvalidArgument (another scheme), kResourceExhausted (longer than bytes_max).
Result<HttpDocument> http_get(const std::string& url, const HttpOptions& options, size_t bytes_max = 64u << 20);

// One try, no redirects. Errors as for http_get, but kUnavailable for what may pass and kInvalidArgument for the rest.
Result<HttpDocument> http_post(const std::string& url, const std::string& content_type, const std::string& body,
                               const HttpOptions& options, size_t bytes_max = 1u << 20);

struct HttpCall {
  std::string method = "GET";  // GET, POST, PUT, DELETE
  std::string url;
  std::string body;                               // of POST and PUT
  std::string content_type = "application/json";  // of the body
};
struct HttpAnswer {
  int64_t status = 0;
  std::string content_type;
  std::string body;
};
// Takes the body of a good answer as it comes, in place of HttpAnswer::body; false ends the transfer.
using HttpSink = std::function<bool(std::string_view piece)>;

// One try, no redirects; any status is an answer. A server of this machine is asked without a proxy. Errors:
// kUnavailable (no answer, or one that broke off), kInvalidArgument (another scheme), kResourceExhausted.
Result<HttpAnswer> http_call(const HttpCall& call, const HttpOptions& options, size_t bytes_max = 64u << 20,
                             const HttpSink& sink = {});

using Progress = std::function<void(int64_t done, int64_t total)>;  // bytes; total 0 when unknown

struct DownloadSpec {
  std::string url;
  std::filesystem::path target;  // its folder exists; `target`.part holds what has arrived so far
  int64_t size = -1;             // bytes, when the index told; -1 unknown
  std::string sha256;            // lower-case hex, when known
};

// Continues target.part where it stopped, checks length and hash, then renames. On a wrong hash or length the part is
// removed and the error says both values. At most `size` bytes are ever written (bytes_max when unknown).
Status http_download(const DownloadSpec& spec, const HttpOptions& options, const Progress& progress,
                     int64_t bytes_max = int64_t{1} << 42);

// Lower-case hex SHA-256 of a whole file.
Result<std::string> file_sha256(const std::filesystem::path& path);

}  // namespace quern
