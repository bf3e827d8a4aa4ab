#include "platform/fleet/worker_probe.h"

#include <curl/curl.h>

#include "base/status.h"

namespace quern {
namespace {

constexpr size_t kBodyMax = 4u << 20;  // a list of models may be long; nobody reads it

}  // namespace

struct WorkerProbes::Question {
  uint64_t id = 0;
  CURL* handle = curl_easy_init();
  curl_slist* headers = nullptr;
  size_t bytes = 0;

  ~Question() {
    curl_easy_cleanup(handle);
    curl_slist_free_all(headers);
  }
  static size_t skip(char*, size_t, size_t size, void* user) {
    auto& self = *static_cast<Question*>(user);
    self.bytes += size;
    return self.bytes <= kBodyMax ? size : 0;
  }
};

Result<std::unique_ptr<WorkerProbes>> WorkerProbes::create() {
  std::unique_ptr<WorkerProbes> probes(new WorkerProbes());
  probes->multi_ = curl_multi_init();
  if (probes->multi_ == nullptr) return io_error("libcurl: no handle for health questions");
  return probes;
}

WorkerProbes::~WorkerProbes() {
  while (!asked_.empty()) forget(asked_.begin()->first);
  if (multi_ != nullptr) curl_multi_cleanup(multi_);
}

void WorkerProbes::ask(uint64_t id, const ProbeTarget& target, std::chrono::milliseconds timeout) {
  auto question = std::make_unique<Question>();
  question->id = id;
  CURL* curl = question->handle;
  const bool is_socket = target.address.starts_with("unix:");
  const size_t mark = target.address.find('#');
  const std::string url = (is_socket ? "http://localhost" : target.address.substr(0, mark)) + target.path;
  if (!is_socket && mark != std::string::npos) {
    curl_easy_setopt(curl, CURLOPT_PINNEDPUBLICKEY, target.address.c_str() + mark + 1);
    curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 0L);
    curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 0L);
  }
  if (is_socket) curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, target.address.c_str() + 5);
  // No proxy stands before a worker of this machine.
  if (is_socket || target.direct || target.address.starts_with("http://127."))
    curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(timeout.count()));
  curl_easy_setopt(curl, CURLOPT_FORBID_REUSE, 1L);  // an old connection says nothing of the worker now
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &Question::skip);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, question.get());
  curl_easy_setopt(curl, CURLOPT_PRIVATE, question.get());
  if (!target.api_key.empty()) {
    question->headers = curl_slist_append(nullptr, ("Authorization: Bearer " + target.api_key).c_str());
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, question->headers);
  }
  curl_multi_add_handle(multi_, curl);
  asked_[id] = std::move(question);
}

void WorkerProbes::forget(uint64_t id) {
  const auto it = asked_.find(id);
  if (it == asked_.end()) return;
  curl_multi_remove_handle(multi_, it->second->handle);
  asked_.erase(it);
}

std::vector<WorkerProbes::Answer> WorkerProbes::collect() {
  std::vector<Answer> answers;
  int running = 0, left = 0;
  curl_multi_perform(multi_, &running);
  while (const CURLMsg* message = curl_multi_info_read(multi_, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    char* user = nullptr;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &user);
    long status = 0;
    if (message->data.result == CURLE_OK) curl_easy_getinfo(message->easy_handle, CURLINFO_RESPONSE_CODE, &status);
    answers.push_back({.id = reinterpret_cast<Question*>(user)->id, .status = static_cast<int32_t>(status)});
  }
  for (const Answer& answer : answers) forget(answer.id);
  return answers;
}

std::vector<WorkerProbes::Answer> WorkerProbes::wait(std::span<const int> files, std::chrono::milliseconds timeout) {
  std::vector<Answer> answers = collect();
  if (!answers.empty()) return answers;
  std::vector<curl_waitfd> waited;
  for (const int file : files) waited.push_back({.fd = file, .events = CURL_WAIT_POLLIN, .revents = 0});
  int ready = 0;
  curl_multi_poll(multi_, waited.data(), static_cast<unsigned>(waited.size()), static_cast<int>(timeout.count()),
                  &ready);
  return collect();
}

void WorkerProbes::wake() {
  curl_multi_wakeup(multi_);
}

}  // namespace quern
