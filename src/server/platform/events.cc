// What happened to a model, and what its workers wrote: as a list or a text, or as it comes.
#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>

#include "base/status.h"
#include "server/door/machine_log.h"
#include "server/offload.h"
#include "server/platform/launch.h"
#include "server/platform/routes.h"
#include "server/platform/words.h"

namespace quern::platform {
namespace {

using http::asio::awaitable;

constexpr size_t kLogBytesDefault = 64 * 1024;
constexpr size_t kLogBytesMax = 4 << 20;
constexpr size_t kLogPieceMax = 64 * 1024;
constexpr std::chrono::milliseconds kFollowPause{200};
constexpr int32_t kPollsPerPing = 75;  // 15 s: proxies close what is silent for longer

std::string_view severity(const std::string& kind) {
  static constexpr auto kErrors = std::to_array<std::string_view>({"died", "stuck", "killed", "failed"});
  static constexpr auto kWarnings = std::to_array<std::string_view>({"restarting", "evicted"});
  if (std::ranges::find(kErrors, kind) != kErrors.end()) return "ERROR";
  return std::ranges::find(kWarnings, kind) != kWarnings.end() ? "WARNING" : "INFO";
}

// With Xinference's keys of an event behind ours.
Json event_json(const FleetEvent& event) {
  const std::string content = event.message.empty() ? event.kind : fmt::format("{}: {}", event.kind, event.message);
  return {{"id", event.id},
          {"time_ms", event.time_ms},
          {"uid", event.uid},
          {"replica", event.replica.empty() ? Json(nullptr) : Json(event.replica)},
          {"kind", event.kind},
          {"message", event.message},
          {"event_type", severity(event.kind)},
          {"event_ts", event.time_ms / 1000},
          {"event_content", content}};
}

Json events_json(const std::vector<FleetEvent>& events) {
  Json list = Json::array();
  for (const FleetEvent& event : events) list.push_back(event_json(event));
  return list;
}

std::string event_text(const FleetEvent& event) {
  return fmt::format("id: {}\nevent: {}\ndata: {}\n\n", event.id, event.kind, dump_json(event_json(event)));
}

ApiResult<int64_t> read_number(std::string_view name, std::optional<std::string_view> text, int64_t otherwise,
                               int64_t max) {
  if (!text) return otherwise;
  int64_t value = -1;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || value < 0 || value > max) {
    return bad_field(std::string(name), fmt::format("{}: must be a number from 0 to {}", name, max));
  }
  return value;
}

// The id of the last event that the client has: of the query, or what its reader says after a cut.
ApiResult<int64_t> read_after(const http::Request& request) {
  const auto header = request.header("last-event-id");
  const auto query = request.query_value("after");
  return read_number("after", query ? query : header, 0, INT64_MAX);
}

awaitable<void> stream_events(Fleet& fleet, const std::string& uid, int64_t after, http::Reply& reply) {
  co_await reply.start_stream(200, "text/event-stream", {});
  int32_t silent = 0;
  while (!reply.client_gone() && !reply.out_of_time()) {
    // Asked before the events: what was said last about a model that ended must not be missed.
    const bool known = fleet.knows(uid);
    const std::vector<FleetEvent> events = fleet.events(uid, after);
    for (const FleetEvent& event : events) {
      after = event.id;
      if (!co_await reply.write(event_text(event))) co_return;
    }
    if (!known) break;
    silent = events.empty() ? silent + 1 : 0;
    if (silent > 0 && silent % kPollsPerPing == 0) co_await reply.write(": still here\n\n");
    co_await pause(reply, kFollowPause);
  }
  co_await reply.end_stream();
}

bool wants_stream(const http::Request& request) {
  const auto accept = request.header("accept");
  return accept && accept->find("text/event-stream") != std::string_view::npos;
}

RouteFunction events_route(const Context& context) {
  return [context](const ModelTable& models, const http::Request& request, http::Reply& reply) -> awaitable<void> {
    const std::string& uid = request.params[0];
    const auto after = read_after(request);
    if (!after) co_return co_await send_error(reply, after.error());
    std::vector<FleetEvent> events;
    if (context.fleet != nullptr) events = context.fleet->events(uid, *after);
    const bool known = context.fleet != nullptr && context.fleet->knows(uid);
    if (!known && events.empty() && !models.find(uid)) {
      const ApiError error = unknown_model(uid);
      co_return co_await send_error(reply, error);
    }
    if (known && wants_stream(request)) co_return co_await stream_events(*context.fleet, uid, *after, reply);
    co_await send_json(reply, events_json(events));
  };
}

struct LogQuery {
  ReplicaView replica;
  size_t bytes = 0;
  bool follow = false;
  int64_t from = -1;  // where in the file to begin; -1: `bytes` before its end
};

ApiResult<LogQuery> read_log_query(const Context& context, const http::Request& request) {
  // A log may tell what a request held: it is for those who may launch.
  if (const auto allowed = context.check_changes(); !allowed) return std::unexpected(allowed.error());
  const auto bytes = read_number("bytes", request.query_value("bytes"), kLogBytesDefault, kLogBytesMax);
  if (!bytes) return std::unexpected(bytes.error());
  const auto follow = read_flag(request, "follow", false);
  if (!follow) return std::unexpected(follow.error());
  const auto from = read_number("from", request.query_value("from"), -1, INT64_MAX);
  if (!from) return std::unexpected(from.error());
  const auto view = context.fleet == nullptr ? std::nullopt : context.fleet->model(request.params[0]);
  if (!view) return std::unexpected(unknown_model(request.params[0]));
  const std::string wanted(request.query_value("replica").value_or(""));
  for (const ReplicaView& replica : view->replicas) {
    const bool fits = wanted.empty() || replica.id == wanted || std::to_string(replica_index(replica.id)) == wanted;
    if (fits) return LogQuery{replica, static_cast<size_t>(*bytes), *follow, *from};
  }
  return std::unexpected(ApiError{
      .status = 404, .message = fmt::format("{} has no replica {}", request.params[0], wanted), .param = "replica"});
}

int64_t size_of(const std::filesystem::path& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  return error ? 0 : static_cast<int64_t>(size);
}

// What the file has from `offset` on, a piece of it; `offset` moves behind it. A file that has become shorter began
// anew.
std::string read_piece(const std::filesystem::path& path, int64_t& offset) {
  const int64_t size = size_of(path);
  if (size < offset) offset = 0;
  std::string piece(static_cast<size_t>(std::min<int64_t>(size - offset, kLogPieceMax)), '\0');
  std::ifstream file(path, std::ios::binary);
  file.seekg(offset);
  file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
  piece.resize(static_cast<size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  offset += static_cast<int64_t>(piece.size());
  return piece;
}

std::optional<ReplicaView> replica_now(const Fleet& fleet, const std::string& uid, const std::string& id) {
  const auto view = fleet.knows(uid) ? fleet.model(uid) : std::nullopt;
  if (!view) return std::nullopt;
  const auto replica = std::ranges::find(view->replicas, id, &ReplicaView::id);
  return replica == view->replicas.end() ? std::nullopt : std::optional(*replica);
}

// Until the replica is gone or on another machine, or the client has left.
awaitable<void> follow_file(const Fleet& fleet, const std::string& uid, const ReplicaView& replica, int64_t offset,
                            http::Reply& reply) {
  while (!reply.client_gone() && !reply.out_of_time()) {
    // Asked before the file: what was written last must not be missed.
    const auto now = replica_now(fleet, uid, replica.id);
    const std::string piece = read_piece(replica.log_file, offset);
    if (!piece.empty()) {
      if (!co_await reply.write(piece)) co_return;
      continue;
    }
    if (!now || now->log_file.empty()) co_return;
    co_await pause(reply, kFollowPause);
  }
}

// The replica's log wherever it runs, one machine after the other.
awaitable<void> follow_log(const Context& context, const std::string& uid, const LogQuery& query, http::Reply& reply) {
  const int64_t size = size_of(query.replica.log_file);
  int64_t offset = std::max<int64_t>(0, size - static_cast<int64_t>(query.bytes));
  // Of a file that has been begun anew since, all is new.
  if (query.from >= 0) offset = query.from <= size ? query.from : 0;
  http::Headers headers;
  if (!query.replica.log_file.empty()) headers.emplace_back(door::kLogOffsetHeader, std::to_string(offset));
  co_await reply.start_stream(200, "text/plain; charset=utf-8", std::move(headers));
  size_t bytes = query.bytes;
  for (std::optional<ReplicaView> replica = query.replica; replica && !reply.client_gone() && !reply.out_of_time();
       replica = replica_now(*context.fleet, uid, query.replica.id)) {
    if (!replica->log_file.empty()) {
      co_await follow_file(*context.fleet, uid, *replica, offset, reply);
    } else if (context.door != nullptr) {
      co_await door::follow_machine_log(*context.door, uid, replica->id, bytes, reply);
    } else {
      break;
    }
    offset = 0;
    bytes = kLogBytesMax;
  }
  co_await reply.end_stream();
}

RouteFunction logs_route(const Context& context) {
  return [context](const ModelTable&, const http::Request& request, http::Reply& reply) -> awaitable<void> {
    const auto query = read_log_query(context, request);
    if (!query) co_return co_await send_error(reply, query.error());
    const std::string& uid = request.params[0];
    if (query->follow) co_return co_await follow_log(context, uid, *query, reply);
    const std::function<Result<std::string>()> read = [&] {
      return context.fleet->log_tail(uid, query->replica.id, query->bytes);
    };
    auto text = co_await offload(read);  // another machine may have it
    if (!text) {
      const ApiError error = platform_error(text.error());
      co_return co_await send_error(reply, error);
    }
    co_await reply.send(200, "text/plain; charset=utf-8", std::move(*text), {});
  };
}

}  // namespace

Routes event_routes(const Context& context) {
  return {
      needs(people::Scope::kLogsList, {"GET", "/v1/models/{uid*}/events", events_route(context)}),
      needs(people::Scope::kLogsList, {"GET", "/v1/models/{uid*}/logs", logs_route(context)}),
  };
}

}  // namespace quern::platform
