// One request on its way to a worker and back. Internal to the door; lives on the strand of its connection.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/door/body_scan.h"
#include "server/door/door.h"
#include "server/door/stream_guard.h"
#include "server/door/usage_meter.h"
#include "server/door/worker_call.h"
#include "server/foreign/translation.h"

namespace quern::door {

class Carriage {
 public:
  Carriage(Door& door, const Route& route, const http::Request& request, http::Reply& reply, ServedName name,
           BodyScan scan);
  http::asio::awaitable<void> run();

 private:
  enum class Verdict : uint8_t { kDone, kRefused, kBroken, kOverloaded };
  // An answer of 429 or 503, kept in case no other replica does better.
  struct KeptAnswer {
    int status = 0;
    std::string content_type, body;
    http::Headers headers;
  };

  RouteRequest route_request() const;
  WorkerRequest worker_request(const Lease& lease);
  WorkerRequest translated_request(const Lease& lease);
  http::asio::awaitable<ApiResult<void>> translate(const Lease& lease);  // into translation_
  const std::string& worker_name(const Lease& lease) const;
  std::string model_text(const Lease& lease) const;
  // The `stream_options` that make the worker count, where they have to be changed for it.
  std::optional<std::string> usage_options(const Lease& lease) const;
  void ask_for_usage(const Lease& lease, std::string& model_text);
  void charge(bool is_whole);
  http::asio::awaitable<bool> try_replica(Lease& lease);  // false: ask the fleet again
  http::asio::awaitable<Verdict> call_worker(const Lease& lease, Lease::Outcome& outcome);
  http::asio::awaitable<Verdict> pass_answer(const Lease& lease, WorkerCall& call, Lease::Outcome& outcome);
  http::asio::awaitable<void> send_whole(int status, std::string type, std::string body, http::Headers headers);
  http::asio::awaitable<Verdict> pass_whole(WorkerCall& call, std::string body, Lease::Outcome& outcome);
  http::asio::awaitable<void> pass_stream(WorkerCall& call, std::string first, Lease::Outcome& outcome);
  http::asio::awaitable<void> end_early(WorkerCall& call, const StreamGuard& guard, Lease::Outcome& outcome);
  http::asio::awaitable<void> pause() const;
  // What another engine's server says went wrong, in the client's dialect; of ours, as it is.
  void put_in_dialect(const Lease& lease, int status, KeptAnswer& answer) const;
  void keep(const Lease& lease, const AnswerHead& head, std::string body);
  http::asio::awaitable<void> send_kept();
  http::asio::awaitable<void> send_refusal(const RouteRefusal& refusal);
  Verdict unanswered(const WorkerCall& call, Lease::Outcome& outcome);
  void note(const Lease& lease, const std::string& reason) const;

  Door& door_;
  const Route& route_;
  const http::Request& request_;
  http::Reply& reply_;
  const std::string uid_, adapter_;
  const BodyScan scan_;
  const std::string target_;
  std::string model_text_, options_text_;              // what a WorkerRequest refers to
  std::unique_ptr<foreign::Translation> translation_;  // of this try; null: the worker is asked as the client asked
  std::optional<UsageMeter> meter_;                    // none: nobody counts what the answer costs
  bool hides_usage_ = false;                           // the door has asked for it, the client has not
  std::shared_ptr<ModelCounts> counts_;
  std::chrono::steady_clock::time_point leased_;
  std::vector<std::string> tried_;
  int num_broken_ = 0, num_tries_ = 0;
  std::string last_reason_;  // why the last replica did not answer
  std::optional<KeptAnswer> kept_;
};

}  // namespace quern::door
