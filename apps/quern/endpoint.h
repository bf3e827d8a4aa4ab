// The running server that `quern launch`, `ps`, `stop`, `logs` and `events` talk to.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "base/json.h"
#include "platform/http_client.h"
#include "quern/status.h"

namespace quern::cli {

struct EndpointOptions {
  std::string url;      // --endpoint, QUERN_ENDPOINT
  std::string api_key;  // --api-key, QUERN_API_KEY
};

void add_endpoint_options(CLI::App& command, EndpointOptions& options);

// Asks METHOD PATH, with `body` unless it is null, and reads the answer as JSON. What the server refuses is an error in
// its words: kNotFound for 404, kInvalidArgument for what else the caller can mend, kPermissionDenied, kUnavailable.
Result<Json> ask(const EndpointOptions& options, const std::string& method, const std::string& path,
                 const Json& body = nullptr);

// Puts a file of the purpose "batch" at /v1/files; the file as the server describes it.
Result<Json> upload(const EndpointOptions& options, const std::string& name, const std::string& content);

// GET PATH; what comes goes to the sink until the server ends it, however long it is silent.
Status follow(const EndpointOptions& options, const std::string& path, const std::string& accept, const HttpSink& sink);

// "/v1/models/UID" and what stands behind it, the uid encoded.
std::string model_path(const std::string& uid, const std::string& rest = "");

}  // namespace quern::cli
