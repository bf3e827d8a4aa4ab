#include "platform/http_client.h"

#include <curl/curl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>

#include "base/status.h"

namespace quern {
namespace {

namespace fs = std::filesystem;

constexpr long kRedirectsMax = 8;

// What one attempt ended with.
struct Outcome {
  CURLcode code = CURLE_OK;
  long status = 0;
  int64_t retry_after_seconds = -1;
  std::string content_type;
  std::string url;
  std::string reason;
};

// Receives the body of one attempt. `begin` is called once, with the final status, before the first byte.
struct Receiver {
  virtual ~Receiver() = default;
  virtual bool begin(long status, int64_t range_begin, int64_t content_length) = 0;
  virtual bool take(std::string_view bytes) = 0;
};

struct Transfer {
  CURL* handle = nullptr;
  Receiver* receiver = nullptr;
  bool begun = false;
  int64_t range_begin = -1;
  int64_t retry_after_seconds = -1;
};

int64_t parse_number(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  int64_t value = -1;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

size_t on_header(char* data, size_t, size_t size, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  std::string line(data, size);
  std::transform(line.begin(), line.end(), line.begin(), [](unsigned char c) { return std::tolower(c); });
  if (line.starts_with("http/")) transfer.range_begin = transfer.retry_after_seconds = -1;  // a new answer begins
  if (line.starts_with("content-range: bytes ")) transfer.range_begin = parse_number(std::string_view(line).substr(21));
  if (line.starts_with("retry-after:")) transfer.retry_after_seconds = parse_number(std::string_view(line).substr(12));
  return size;
}

size_t on_body(char* data, size_t, size_t size, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  if (!transfer.begun) {
    transfer.begun = true;
    long status = 0;
    curl_off_t length = -1;
    curl_easy_getinfo(transfer.handle, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(transfer.handle, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    if (!transfer.receiver->begin(status, transfer.range_begin, length)) return 0;
  }
  return transfer.receiver->take({data, size}) ? size : 0;
}

int on_progress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<const HttpOptions*>(user)->give_up() ? 1 : 0;
}

struct CurlDeleter {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

void set_limits(CURL* curl, const std::string& url, const HttpOptions& options) {
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(curl, CURLOPT_MAXREDIRS, kRedirectsMax);
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  // A server reached by TLS must not send us, or the token, to plain text.
  curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, url.starts_with("https:") ? "https" : "http,https");
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, 15L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, static_cast<long>(options.stall_seconds_max));
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "quern/0.1");
  if (!options.ca_file.empty()) curl_easy_setopt(curl, CURLOPT_CAINFO, options.ca_file.c_str());
  if (!options.pin.empty()) {
    curl_easy_setopt(curl, CURLOPT_PINNEDPUBLICKEY, options.pin.c_str());
    curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 0L);
    curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 0L);
  }
  if (options.direct) curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
  if (options.seconds_max > 0) curl_easy_setopt(curl, CURLOPT_TIMEOUT, static_cast<long>(options.seconds_max));
  if (!options.give_up) return;
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &options);
}

struct Posted {
  const std::string& content_type;
  const std::string& body;
  const char* method = "POST";
  bool direct = false;  // without a proxy
};

bool is_local(const std::string& url) {
  constexpr std::array kHosts = {"http://127.", "http://localhost:", "http://localhost/", "http://[::1]"};
  return std::ranges::any_of(kHosts, [&](const char* host) { return url.starts_with(host); });
}

// GET, or `posted`.
Outcome attempt(const std::string& url, const HttpOptions& options, int64_t resume_from, Receiver& receiver,
                const Posted* posted = nullptr) {
  static const bool initialised = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  const std::unique_ptr<CURL, CurlDeleter> handle(initialised ? curl_easy_init() : nullptr);
  if (!handle) return {.code = CURLE_FAILED_INIT, .reason = "libcurl could not start"};
  CURL* curl = handle.get();
  Transfer transfer{.handle = curl, .receiver = &receiver};
  std::unique_ptr<curl_slist, CurlDeleter> headers;
  const auto add_header = [&](const std::string& header) {
    headers.reset(curl_slist_append(headers.release(), header.c_str()));
  };
  for (const std::string& header : options.headers) add_header(header);
  if (posted != nullptr) {
    add_header("Content-Type: " + posted->content_type);
    add_header("Expect:");  // libcurl would wait for a word that many servers never send
  }
  char reason[CURL_ERROR_SIZE] = "";

  set_limits(curl, url, options);
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, reason);
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  if (!options.bearer_token.empty()) {
    curl_easy_setopt(curl, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
    curl_easy_setopt(curl, CURLOPT_XOAUTH2_BEARER, options.bearer_token.c_str());
  }
  if (posted != nullptr) {
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(posted->body.size()));
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, posted->body.c_str());
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, posted->method);
    if (posted->direct) curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
  }
  if (resume_from > 0) curl_easy_setopt(curl, CURLOPT_RESUME_FROM_LARGE, static_cast<curl_off_t>(resume_from));

  Outcome outcome;
  outcome.code = curl_easy_perform(curl);
  outcome.reason = reason[0] != '\0' ? reason : curl_easy_strerror(outcome.code);
  outcome.retry_after_seconds = transfer.retry_after_seconds;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &outcome.status);
  const char* text = nullptr;
  if (curl_easy_getinfo(curl, CURLINFO_CONTENT_TYPE, &text) == CURLE_OK && text != nullptr) outcome.content_type = text;
  if (curl_easy_getinfo(curl, CURLINFO_EFFECTIVE_URL, &text) == CURLE_OK && text != nullptr) outcome.url = text;
  return outcome;
}

Error to_error(const std::string& url, const Outcome& outcome) {
  if (outcome.status == 404 || outcome.status == 410) {
    return {ErrorCode::kNotFound, fmt::format("{}: not found ({})", url, outcome.status)};
  }
  if (outcome.status == 401 || outcome.status == 403) {
    return {ErrorCode::kPermissionDenied,
            fmt::format("{}: refused ({}); a token may be missing or lack the right", url, outcome.status)};
  }
  if (outcome.status >= 400) {
    return {ErrorCode::kUnavailable, fmt::format("{}: the server answered {}", url, outcome.status)};
  }
  return {ErrorCode::kUnavailable, fmt::format("{}: {}", url, outcome.reason)};
}

bool may_pass(const Outcome& outcome) {
  if (outcome.status == 429 || outcome.status == 408 || outcome.status >= 500) return true;
  if (outcome.status >= 400) return false;
  switch (outcome.code) {
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_OPERATION_TIMEDOUT: return true;
    default: return false;
  }
}

void pause_before(int32_t next_try, const Outcome& outcome, const HttpOptions& options) {
  int64_t milliseconds = 250LL << std::min(next_try, 6);
  if (outcome.retry_after_seconds >= 0) milliseconds = outcome.retry_after_seconds * 1000;
  milliseconds = std::min(milliseconds, options.retry_seconds_max * 1000);
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

class MemoryReceiver final : public Receiver {
 public:
  explicit MemoryReceiver(size_t bytes_max) : bytes_max_(bytes_max) {}
  bool begin(long, int64_t, int64_t) override { return true; }
  bool take(std::string_view bytes) override {
    overflow = body.size() + bytes.size() > bytes_max_;
    if (!overflow) body += bytes;
    return !overflow;
  }
  std::string body;
  bool overflow = false;

 private:
  size_t bytes_max_;
};

// Gives the body of a good answer on; keeps that of another one.
class SinkReceiver final : public Receiver {
 public:
  SinkReceiver(size_t bytes_max, const HttpSink& sink) : kept(bytes_max), sink_(sink) {}
  bool begin(long status, int64_t, int64_t) override {
    good_ = status < 300;
    return true;
  }
  bool take(std::string_view bytes) override {
    if (!good_ || !sink_) return kept.take(bytes);
    ended = !sink_(bytes);
    return !ended;
  }
  MemoryReceiver kept;
  bool ended = false;  // by the sink

 private:
  const HttpSink& sink_;
  bool good_ = false;
};

// Appends to a file from `done` bytes on; starts anew when the server sends the whole file instead of the rest.
class FileReceiver final : public Receiver {
 public:
  FileReceiver(std::FILE* file, int64_t begin_at, int64_t bytes_max, int64_t size, const Progress& progress)
      : done(begin_at), file_(file), bytes_max_(bytes_max), size_(size), progress_(progress) {}

  bool begin(long status, int64_t range_begin, int64_t content_length) override {
    if (status >= 300) return false;  // an error page is not the file
    if (status != 206) {
      done = 0;
    } else if (range_begin != done) {
      return false;  // not the range we asked for
    }
    if (std::fseek(file_, static_cast<long>(done), SEEK_SET) != 0 || ftruncate(fileno(file_), done) != 0) return false;
    total_ = size_ >= 0 ? size_ : (content_length >= 0 ? done + content_length : 0);
    return true;
  }
  bool take(std::string_view bytes) override {
    overflow = done + static_cast<int64_t>(bytes.size()) > bytes_max_;
    if (overflow) return false;
    disk_full = std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size();
    if (disk_full) return false;
    done += static_cast<int64_t>(bytes.size());
    if (progress_) progress_(done, total_);
    return true;
  }

  int64_t done;
  bool overflow = false;
  bool disk_full = false;

 private:
  std::FILE* file_;
  int64_t bytes_max_;
  int64_t size_;
  const Progress& progress_;
  int64_t total_ = 0;
};

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

Error disk_error(const fs::path& part) {
  return {ErrorCode::kIo, fmt::format("{}: cannot write: is the disk full?", part.string())};
}

// Fills `part` as far as the server lets us.
Status fill_part(const DownloadSpec& spec, const fs::path& part, const HttpOptions& options, const Progress& progress,
                 int64_t bytes_max) {
  // Mode "a" creates, but would move every write to the end, also after a restart from zero.
  if (std::FILE* created = std::fopen(part.c_str(), "ab")) std::fclose(created);
  const std::unique_ptr<std::FILE, FileCloser> file(std::fopen(part.c_str(), "rb+"));
  if (!file) return io_error(fmt::format("{}: cannot write", part.string()));
  std::error_code ignored;
  auto done = static_cast<int64_t>(fs::file_size(part, ignored));
  if (done > bytes_max) done = 0;
  for (int32_t tries = 1;; ++tries) {
    if (spec.size >= 0 && done == spec.size) break;
    FileReceiver receiver(file.get(), done, bytes_max, spec.size, progress);
    const Outcome outcome = attempt(spec.url, options, done, receiver);
    if (receiver.done > done) tries = 1;
    done = receiver.done;
    if (receiver.disk_full) return std::unexpected(disk_error(part));
    if (receiver.overflow) {
      fs::remove(part, ignored);
      return make_error(ErrorCode::kUnavailable,
                        fmt::format("{}: the server sends more than the {} bytes announced", spec.url, bytes_max));
    }
    if (outcome.code == CURLE_OK && outcome.status < 300) break;
    const bool range_refused = outcome.status == 416 || outcome.code == CURLE_RANGE_ERROR ||
                               (outcome.status == 206 && outcome.code == CURLE_WRITE_ERROR);
    if (range_refused) done = 0;
    if ((!range_refused && !may_pass(outcome)) || tries >= options.tries_max) {
      return std::unexpected(to_error(spec.url, outcome));
    }
    pause_before(tries, outcome, options);
  }
  if (std::fflush(file.get()) != 0 || ftruncate(fileno(file.get()), done) != 0)
    return std::unexpected(disk_error(part));
  return {};
}

Status check_url(const std::string& url) {
  if (url.starts_with("https://") || url.starts_with("http://")) return {};
  return invalid_argument(fmt::format("{}: not an http or https URL", url));
}

}  // namespace

Result<HttpDocument> http_get(const std::string& url, const HttpOptions& options, size_t bytes_max) {
  QUERN_TRY(check_url(url));
  for (int32_t tries = 1;; ++tries) {
    MemoryReceiver receiver(bytes_max);
    const Outcome outcome = attempt(url, options, 0, receiver);
    if (receiver.overflow) {
      return make_error(ErrorCode::kResourceExhausted, fmt::format("{}: the answer is over {} bytes", url, bytes_max));
    }
    if (outcome.code == CURLE_OK && outcome.status < 300) {
      return HttpDocument{std::move(receiver.body), outcome.content_type, outcome.url};
    }
    if (!may_pass(outcome) || tries >= options.tries_max) return std::unexpected(to_error(url, outcome));
    pause_before(tries, outcome, options);
  }
}

Result<HttpDocument> http_post(const std::string& url, const std::string& content_type, const std::string& body,
                               const HttpOptions& options, size_t bytes_max) {
  QUERN_TRY(check_url(url));
  MemoryReceiver receiver(bytes_max);
  const Posted posted{.content_type = content_type, .body = body};
  const Outcome outcome = attempt(url, options, 0, receiver, &posted);
  if (outcome.code == CURLE_OK && outcome.status < 300) {
    return HttpDocument{std::move(receiver.body), outcome.content_type, outcome.url};
  }
  Error error = to_error(url, outcome);
  const bool answered = outcome.status >= 300;
  if (answered && !may_pass(outcome) && error.code == ErrorCode::kUnavailable) error.code = ErrorCode::kInvalidArgument;
  return std::unexpected(std::move(error));
}

Result<HttpAnswer> http_call(const HttpCall& call, const HttpOptions& options, size_t bytes_max, const HttpSink& sink) {
  QUERN_TRY(check_url(call.url));
  SinkReceiver receiver(bytes_max, sink);
  const Posted posted{.content_type = call.content_type,
                      .body = call.body,
                      .method = call.method.c_str(),
                      .direct = is_local(call.url)};
  const Outcome outcome = attempt(call.url, options, 0, receiver, &posted);
  if (receiver.kept.overflow) {
    return make_error(ErrorCode::kResourceExhausted,
                      fmt::format("{}: the answer is over {} bytes", call.url, bytes_max));
  }
  if (outcome.code != CURLE_OK && !receiver.ended) {
    return make_error(ErrorCode::kUnavailable, fmt::format("{}: {}", call.url, outcome.reason));
  }
  return HttpAnswer{outcome.status, outcome.content_type, std::move(receiver.kept.body)};
}

Status http_download(const DownloadSpec& spec, const HttpOptions& options, const Progress& progress,
                     int64_t bytes_max) {
  QUERN_TRY(check_url(spec.url));
  if (spec.size >= 0) bytes_max = spec.size;
  fs::path part = spec.target;
  part += ".part";
  std::error_code ignored;
  if (fs::is_symlink(part, ignored)) fs::remove(part, ignored);  // it would be written through
  QUERN_TRY(fill_part(spec, part, options, progress, bytes_max));
  std::error_code error;
  const auto length = static_cast<int64_t>(fs::file_size(part, error));
  if (spec.size >= 0 && length != spec.size) {
    fs::remove(part, error);
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("{}: {} bytes arrived, {} were announced", spec.url, length, spec.size));
  }
  if (!spec.sha256.empty()) {
    QUERN_ASSIGN(const std::string actual, file_sha256(part));
    if (actual != spec.sha256) {
      fs::remove(part, error);
      return make_error(ErrorCode::kUnavailable,
                        fmt::format("{}: SHA-256 is {}, expected {}", spec.url, actual, spec.sha256));
    }
  }
  fs::rename(part, spec.target, error);
  if (error) return io_error(fmt::format("{}: {}", spec.target.string(), error.message()));
  return {};
}

}  // namespace quern
