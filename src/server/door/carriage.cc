#include "server/door/carriage.h"

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/status.h"
#include "platform/people/scopes.h"
#include "server/door/headers.h"
#include "server/door/lease_wait.h"
#include "server/door/stop_hook.h"
#include "server/foreign/chat_answer.h"
#include "server/foreign/chat_body.h"
#include "server/offload.h"
#include "server/tracing/request_span.h"

namespace quern::door {
namespace {

using http::asio::awaitable;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kNoPatience{0}, kPauseBetweenRounds{250};
constexpr int kTriesMax = 8;   // of one request, however many replicas refuse
constexpr int kBrokenMax = 2;  // a request that breaks two workers may be what breaks them
constexpr size_t kKeptBytesMax = 64 * 1024;
constexpr size_t kBytesPerToken = 4;               // of a prompt that nobody has counted
constexpr int64_t kContextGuess = 32768;           // tokens a prompt has at most, where the model does not say
constexpr size_t kWholeBytesMax = 1u << 20;        // an answer up to here goes out in one piece, with its length
constexpr size_t kTranslatedBytesMax = 64u << 20;  // an answer that is written anew
constexpr size_t kInPlaceMax = 256 * 1024;         // longer bodies are written anew beside the connections' threads

// Sent on piece by piece, as it comes.
bool is_stream(const AnswerHead& head) {
  const std::string_view type = head.header("content-type");
  if (type.starts_with("text/event-stream") || type.starts_with("application/x-ndjson")) return true;
  return head.chunked && !type.starts_with("application/json");
}

// Counts a request as in flight while it lives.
class InFlight {
 public:
  explicit InFlight(std::atomic<int64_t>& count) : count_(count) { count_.fetch_add(1, std::memory_order_relaxed); }
  ~InFlight() { count_.fetch_sub(1, std::memory_order_relaxed); }
  InFlight(const InFlight&) = delete;

 private:
  std::atomic<int64_t>& count_;
};

ApiError shutting_down() {
  return {.status = 503, .message = "the server is shutting down", .type = "service_unavailable"};
}

// Of a body that is written anew.
void erase_coding(http::Headers& headers) {
  std::erase_if(headers, [](const auto& header) { return header.first == "content-encoding"; });
}

ApiError bad_answer() {
  return {.status = 502,
          .message = "the worker of the model sent what is no answer",
          .type = "worker_error",
          .code = "bad_answer"};
}

ApiError unreachable() {
  return {.status = 503,
          .message = "no worker of the model can be reached",
          .type = "service_unavailable",
          .code = "no_worker"};
}

ApiError to_api_error(const RouteRefusal& refusal) {
  ApiError error{.status = 503, .message = refusal.message, .type = "service_unavailable"};
  error.retry_after_s = std::max(refusal.retry_after_s, 1);
  if (refusal.reason == RouteRefusal::Reason::kUnknownModel) {
    error.status = 404;
    error.type = "invalid_request_error";
    error.param = "model";
    error.code = "model_not_found";
  } else if (refusal.reason == RouteRefusal::Reason::kBusy) {
    error.status = 429;
    error.type = "rate_limit_error";
  }
  return error;
}

}  // namespace

Carriage::Carriage(Door& door, const Route& route, const http::Request& request, http::Reply& reply, ServedName name,
                   BodyScan scan)
    : door_(door),
      route_(route),
      request_(request),
      reply_(reply),
      uid_(std::move(name.uid)),
      adapter_(std::move(name.adapter)),
      scan_(std::move(scan)),
      target_(target_of(request)),
      counts_(door.metrics_.model(uid_)) {
  const auto* who = request.principal.get();
  if (who != nullptr && who->kind == people::Principal::Kind::kApiKey) meter_.emplace();
}

RouteRequest Carriage::route_request() const {
  RouteRequest request{
      .uid = uid_, .adapter = adapter_, .session = scan_.session, .prefix = scan_.prefix, .tried = tried_};
  if (const auto session = request_.header("x-session-id")) request.session = session_of(*session);
  // An adapter's cache is another than its model's.
  if (!adapter_.empty()) {
    for (uint64_t& piece : request.prefix) piece ^= session_of(adapter_);
  }
  return request;
}

awaitable<void> Carriage::run() {
  if (auto* span = reply_.span()) span->see_carried(uid_);
  std::optional<InFlight> client;
  if (!request_.background) client.emplace(counts_->clients);
  const auto begin = Clock::now();
  for (;;) {
    const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
    const auto patience = std::max(door_.options_.load_timeout - waited, std::chrono::milliseconds(0));
    RouteRequest wanted = route_request();
    const auto time = kept_ ? kNoPatience : patience;
    auto lease = co_await wait_for_lease(door_.fleet_, std::move(wanted), time, reply_);
    if (reply_.client_gone() || reply_.out_of_time() || !lease) {
      if (lease && *lease) (**lease)->finish(Lease::Outcome::kAbandoned);
      if (!reply_.client_gone()) co_await send_error(reply_, shutting_down(), route_.error_body);
      co_return;
    }
    if (!*lease) {
      const bool all_failed = !tried_.empty() && lease->error().reason == RouteRefusal::Reason::kUnavailable;
      if (!all_failed || kept_) co_return co_await send_refusal(lease->error());
      // They may be back soon: the fleet starts them again.
      co_await pause();
      tried_.clear();
      continue;
    }
    if (num_tries_++ == 0) counts_->wait_seconds.observe(std::chrono::duration<double>(Clock::now() - begin).count());
    if (co_await try_replica(***lease)) co_return;
    if (num_tries_ >= kTriesMax || num_broken_ >= kBrokenMax) break;
    counts_->retries.fetch_add(1, std::memory_order_relaxed);
  }
  if (kept_) co_return co_await send_kept();
  const ApiError error = num_broken_ > 0 ? foreign::unfinished() : unreachable();
  co_await send_error(reply_, error, route_.error_body);
}

awaitable<void> Carriage::pause() const {
  const auto strand = co_await http::asio::this_coro::executor;
  http::asio::steady_timer timer(strand, kPauseBetweenRounds);
  boost::system::error_code ignored;
  co_await timer.async_wait(http::asio::redirect_error(http::asio::use_awaitable, ignored));
}

awaitable<bool> Carriage::try_replica(Lease& lease) {
  const auto counts = door_.metrics_.replica(uid_, lease.replica());
  Lease::Outcome outcome = Lease::Outcome::kOk;
  Verdict verdict;
  {
    const InFlight in_flight(counts->in_flight);
    leased_ = Clock::now();
    verdict = co_await call_worker(lease, outcome);
  }
  counts->outcomes[static_cast<size_t>(outcome)].fetch_add(1, std::memory_order_relaxed);
  lease.finish(outcome);
  if (outcome == Lease::Outcome::kRefused || outcome == Lease::Outcome::kBroken) note(lease, last_reason_);
  if (verdict == Verdict::kDone) co_return true;
  if (verdict == Verdict::kBroken) ++num_broken_;
  tried_.push_back(lease.replica());
  co_return false;
}

void Carriage::note(const Lease& lease, const std::string& reason) const {
  Json fields = {{"request_id", request_.id}, {"model", uid_}, {"replica", lease.replica()}, {"reason", reason}};
  door_.log_.write(LogLevel::kWarning, "a worker did not answer to the end", fields);
}

const std::string& Carriage::worker_name(const Lease& lease) const {
  if (!lease.model().empty()) return lease.model();
  return adapter_.empty() ? uid_ : adapter_;
}

std::string Carriage::model_text(const Lease& lease) const {
  const std::string& name = worker_name(lease);
  if (scan_.is_form) return name;
  std::string text = name == scan_.model ? std::string(scan_.model_value) : dump_json(Json(name));
  if (!lease.fields().empty()) text += "," + lease.fields();
  return text;
}

// A server that is not ours may not know what is asked for here.
std::optional<std::string> Carriage::usage_options(const Lease& lease) const {
  const bool has_options = request_.path == "/v1/chat/completions" || request_.path == "/v1/completions";
  if (!meter_ || !scan_.stream || !has_options || lease.engine().empty() || lease.engine() == "openai") {
    return std::nullopt;
  }
  return asking_for_usage(scan_.stream_options);
}

void Carriage::ask_for_usage(const Lease& lease, std::string& model_text) {
  options_text_.clear();
  hides_usage_ = false;
  auto options = usage_options(lease);
  if (!options) return;
  hides_usage_ = true;
  if (scan_.stream_options.empty()) {
    model_text += ",\"stream_options\":" + *options;
  } else {
    options_text_ = std::move(*options);
  }
}

WorkerRequest Carriage::worker_request(const Lease& lease) {
  WorkerRequest request{.method = request_.method,
                        .target = lease.base_path() + target_,
                        .headers = headers_for_worker(request_, reply_, lease),
                        .body = {}};
  model_text_ = model_text(lease);
  ask_for_usage(lease, model_text_);
  // What is put in another's place, in the order of the body.
  std::pair<std::string_view, std::string_view> changes[] = {{scan_.model_value, model_text_},
                                                             {scan_.stream_options, options_text_}};
  if (options_text_.empty()) changes[1] = {};
  if (changes[1].first.data() < changes[0].first.data()) std::swap(changes[0], changes[1]);
  std::string_view rest = request_.body;
  for (const auto& [place, text] : changes) {
    if (place.empty() || place == text) continue;
    const auto at = static_cast<size_t>(place.data() - rest.data());
    request.body.push_back(rest.substr(0, at));
    request.body.push_back(text);
    rest.remove_prefix(at + place.size());
  }
  request.body.push_back(rest);
  return request;
}

awaitable<ApiResult<void>> Carriage::translate(const Lease& lease) {
  translation_.reset();
  if (scan_.is_form || !foreign::is_foreign(lease.engine())) co_return ApiResult<void>();
  const auto view = door_.fleet_.model(uid_);
  const int64_t context = view ? view->context : 0;
  const bool is_long = request_.body.size() > kInPlaceMax;
  if (!is_long && !foreign::may_need_translation(lease.engine(), request_.path, request_.body, context)) {
    co_return ApiResult<void>();
  }
  using Translated = ApiResult<std::unique_ptr<foreign::Translation>>;
  const std::function<Translated()> work = [&]() -> Translated {
    if (!foreign::may_need_translation(lease.engine(), request_.path, request_.body, context)) return Translated();
    auto body = parse_body(request_);
    if (!body) return std::unexpected(body.error());
    return foreign::translate({.engine = lease.engine(),
                               .path = request_.path,
                               .body = *body,
                               .shown_name = adapter_.empty() ? uid_ : adapter_,
                               .worker_name = worker_name(lease),
                               .context = context});
  };
  Translated translated;
  if (is_long) {
    translated = co_await offload(work);
  } else {
    translated = work();
  }
  if (!translated) co_return std::unexpected(translated.error());
  translation_ = std::move(*translated);
  co_return ApiResult<void>();
}

WorkerRequest Carriage::translated_request(const Lease& lease) {
  hides_usage_ = false;
  WorkerRequest request{.method = "POST",
                        .target = lease.base_path() + translation_->path,
                        .headers = headers_for_worker(request_, reply_, lease),
                        .body = {}};
  std::erase_if(request.headers, [](const auto& header) { return header.first == "content-type"; });
  request.headers.emplace_back("Content-Type", "application/json");
  std::optional<Json> counted;
  if (const auto options = usage_options(lease); options && translation_->keeps_answer) {
    if (auto value = parse_json(*options, "stream_options")) {
      counted = translation_->body;
      (*counted)["stream_options"] = std::move(*value);
      hides_usage_ = true;
    }
  }
  model_text_ = dump_json(counted ? *counted : translation_->body);
  if (!lease.fields().empty()) model_text_.insert(1, lease.fields() + ",");
  request.body.push_back(model_text_);
  return request;
}

// What the answer has cost, on the bill of the key that asked.
void Carriage::charge(bool is_whole) {
  if (!meter_) return;
  if (is_whole && meter_->told()) return reply_.count_tokens(meter_->tokens(is_whole, 0));
  const auto view = door_.fleet_.model(uid_);
  const int64_t context = view && view->context > 0 ? view->context : kContextGuess;
  const int64_t prompt = std::min(static_cast<int64_t>(scan_.prompt_bytes / kBytesPerToken), context);
  if (!scan_.background) return reply_.count_tokens(meter_->tokens(is_whole, prompt));
  // Of what comes later, all that it may be.
  reply_.count_tokens(prompt + (scan_.output_max > 0 ? std::min(scan_.output_max, context) : context));
}

awaitable<Carriage::Verdict> Carriage::call_worker(const Lease& lease, Lease::Outcome& outcome) {
  auto address = parse_worker_address(lease.address());
  if (!address) {
    last_reason_ = address.error().message;
    outcome = Lease::Outcome::kRefused;
    co_return Verdict::kRefused;
  }
  WorkerCall call(*door_.pool_, std::move(*address));
  const StopHook hook(reply_, call);
  const auto translated = co_await translate(lease);
  if (!translated) {
    outcome = Lease::Outcome::kAbandoned;  // the worker was not asked
    co_await send_error(reply_, translated.error(), route_.error_body);
    co_return Verdict::kDone;
  }
  if (translation_ && translation_->answers_itself) {
    outcome = Lease::Outcome::kAbandoned;
    const auto answer = translation_->whole(nullptr);
    if (answer) co_await send_json(reply_, *answer);
    co_return Verdict::kDone;
  }
  const WorkerRequest request = translation_ ? translated_request(lease) : worker_request(lease);
  if (!co_await call.begin(request)) {
    if (call.end() != CallEnd::kStopped) co_return unanswered(call, outcome);
    outcome = Lease::Outcome::kAbandoned;
    if (!reply_.client_gone()) {
      co_await send_error(reply_, shutting_down(), route_.error_body);
    } else {
      charge(false);
    }
    co_return Verdict::kDone;
  }
  co_return co_await pass_answer(lease, call, outcome);
}

// Of a worker that sent nothing of an answer.
Carriage::Verdict Carriage::unanswered(const WorkerCall& call, Lease::Outcome& outcome) {
  last_reason_ = call.reason();
  const bool refused = call.end() == CallEnd::kRefused;
  outcome = refused ? Lease::Outcome::kRefused : Lease::Outcome::kBroken;
  return refused ? Verdict::kRefused : Verdict::kBroken;
}

awaitable<Carriage::Verdict> Carriage::pass_answer(const Lease& lease, WorkerCall& call, Lease::Outcome& outcome) {
  const int status = call.head().status;
  const bool overloaded = status == 429 || status == 503;
  const bool refused = status >= 400 && foreign::is_foreign(lease.engine());
  const bool is_translated = translation_ && !translation_->keeps_answer;
  const bool must_be_whole = overloaded || refused || (is_translated && !translation_->is_stream);
  const bool streamed = is_stream(call.head()) && !must_be_whole;
  const size_t whole_max = overloaded ? kKeptBytesMax : is_translated ? kTranslatedBytesMax : kWholeBytesMax;
  std::string body;
  bool more = co_await call.read(body);
  counts_->first_byte_seconds.observe(std::chrono::duration<double>(Clock::now() - leased_).count());
  while (more && !streamed && body.size() <= whole_max) more = co_await call.read(body);
  if (overloaded && call.end() == CallEnd::kWhole) {
    keep(lease, call.head(), std::move(body));
    outcome = Lease::Outcome::kOverloaded;
    co_return Verdict::kOverloaded;
  }
  if (call.end() == CallEnd::kBroken && body.empty()) co_return unanswered(call, outcome);
  if (refused && call.end() == CallEnd::kWhole) {
    KeptAnswer answer{status, "", std::move(body), headers_for_client(call.head())};
    put_in_dialect(lease, status, answer);
    co_await reply_.send(answer.status, answer.content_type, std::move(answer.body), std::move(answer.headers));
    co_return Verdict::kDone;
  }
  if (!streamed && !more) co_return co_await pass_whole(call, std::move(body), outcome);
  if (!streamed && is_translated) {
    co_await send_error(reply_, bad_answer(), route_.error_body);
    co_return Verdict::kDone;
  }
  co_await pass_stream(call, std::move(body), outcome);
  co_return Verdict::kDone;
}

awaitable<void> Carriage::send_whole(int status, std::string type, std::string body, http::Headers headers) {
  if (!translation_ || translation_->keeps_answer) {
    co_return co_await reply_.send(status, type, std::move(body), std::move(headers));
  }
  const std::function<ApiResult<Json>()> work = [&]() -> ApiResult<Json> {
    const auto answer = parse_json(body, "the worker's answer");
    if (answer && !translation_->is_stream) return translation_->whole(*answer);
    return std::unexpected(bad_answer());
  };
  ApiResult<Json> answer;
  if (body.size() > kInPlaceMax) {
    answer = co_await offload(work);
  } else {
    answer = work();
  }
  if (!answer) co_return co_await send_error(reply_, answer.error(), route_.error_body);
  co_await send_json(reply_, *answer);
}

awaitable<Carriage::Verdict> Carriage::pass_whole(WorkerCall& call, std::string body, Lease::Outcome& outcome) {
  if (call.end() == CallEnd::kWhole) {
    const std::string type = content_type_of(call.head());
    http::Headers headers = headers_for_client(call.head());
    if (meter_ && call.head().status < 400) {
      meter_->see(body);
      if (meter_->told() || scan_.background) charge(true);
    }
    co_await send_whole(call.head().status, type, std::move(body), std::move(headers));
    co_return Verdict::kDone;
  }
  const bool stopped = call.end() == CallEnd::kStopped;
  outcome = stopped ? Lease::Outcome::kAbandoned : Lease::Outcome::kBroken;
  last_reason_ = call.reason();
  // Part of an answer had come: the request is not repeated.
  const ApiError error = stopped ? shutting_down() : foreign::unfinished();
  if (!reply_.client_gone()) co_await send_error(reply_, error, route_.error_body);
  co_return Verdict::kDone;
}

awaitable<void> Carriage::pass_stream(WorkerCall& call, std::string first, Lease::Outcome& outcome) {
  std::optional<foreign::StreamTranslator> translator;
  if (translation_ && !translation_->keeps_answer) translator.emplace(*translation_, route_.error_event);
  const std::string type = translator ? translation_->stream_type() : content_type_of(call.head());
  http::Headers headers = headers_for_client(call.head());
  if (translator) erase_coding(headers);
  StreamGuard guard(type);
  UsageHider hider;
  if (call.head().status >= 400) meter_.reset();
  co_await reply_.start_stream(call.head().status, type, std::move(headers));
  std::string piece = std::move(first);
  for (;;) {
    if (meter_ && translator) meter_->see(piece);
    std::string bytes = translator ? translator->push(piece) : guard.push(std::move(piece));
    if (meter_ && !translator) meter_->see(bytes);
    if (hides_usage_) bytes = hider.pass(std::move(bytes));
    bool taken = !reply_.client_gone();
    if (taken && !bytes.empty()) taken = co_await reply_.write(bytes);
    if (!taken) {
      outcome = Lease::Outcome::kAbandoned;
      charge(false);
      co_return;
    }
    piece.clear();
    if (translator && translator->has_failed()) break;  // nothing that comes now is read
    const bool more = co_await call.read(piece);
    if (!more) break;
  }
  charge(call.end() == CallEnd::kWhole);
  const bool has_failed = translator && translator->has_failed();  // and told so
  if (call.end() != CallEnd::kWhole && !has_failed) co_return co_await end_early(call, guard, outcome);
  const std::string rest = translator ? translator->finish() : guard.finish();
  if (!rest.empty()) co_await reply_.write(rest);
  co_await reply_.end_stream();
}

awaitable<void> Carriage::end_early(WorkerCall& call, const StreamGuard& guard, Lease::Outcome& outcome) {
  const bool stopped = call.end() == CallEnd::kStopped;
  outcome = stopped ? Lease::Outcome::kAbandoned : Lease::Outcome::kBroken;
  last_reason_ = call.reason();
  if (reply_.client_gone()) co_return;
  const std::string words = guard.fail(stopped ? shutting_down() : foreign::unfinished(), route_.error_event);
  if (words.empty()) {
    reply_.break_off();
    co_return;
  }
  co_await reply_.write(words);
  co_await reply_.end_stream();
}

void Carriage::put_in_dialect(const Lease& lease, int status, KeptAnswer& answer) const {
  if (!foreign::is_foreign(lease.engine())) return;
  const ApiError error = foreign::error_of(lease.engine(), request_.path, status, answer.body);
  answer.status = error.status;
  answer.content_type = "application/json";
  answer.body = route_.error_body(error);
  erase_coding(answer.headers);
}

void Carriage::keep(const Lease& lease, const AnswerHead& head, std::string body) {
  kept_ = KeptAnswer{head.status, content_type_of(head), std::move(body), headers_for_client(head)};
  put_in_dialect(lease, head.status, *kept_);
}

awaitable<void> Carriage::send_kept() {
  return reply_.send(kept_->status, kept_->content_type, std::move(kept_->body), std::move(kept_->headers));
}

// The worker's own words count more than that nobody else is ready.
awaitable<void> Carriage::send_refusal(const RouteRefusal& refusal) {
  if (kept_) return send_kept();
  return send_error(reply_, to_api_error(refusal), route_.error_body);
}

}  // namespace quern::door
