#include "server/xxljob/protocol.h"

#include "base/status.h"

namespace quern::xxljob {
namespace {

constexpr size_t kParamsMax = 64 * 1024;
constexpr size_t kHandlerMax = 128;
constexpr size_t kMessageMax = 2000;
constexpr JsonLimits kLimits{.depth_max = 8, .bytes_max = 1u << 20};

// Java's clients write numbers that are null, and admins in other languages write them as text.
Result<int64_t> number(const Json& body, const char* name) {
  const auto found = body.find(name);
  if (found == body.end() || found->is_null()) return 0;
  if (!found->is_number_integer() || found->get<double>() < 0 || found->get<double>() > 9e15) {
    return invalid_argument(fmt::format("{}: must be a whole number", name));
  }
  return found->get<int64_t>();
}

Result<std::string> text(const Json& body, const char* name, size_t size_max) {
  const auto found = body.find(name);
  if (found == body.end() || found->is_null()) return std::string();
  if (!found->is_string()) return invalid_argument(fmt::format("{}: must be a string", name));
  if (found->get_ref<const std::string&>().size() > size_max) {
    return invalid_argument(fmt::format("{}: is longer than {} bytes", name, size_max));
  }
  return found->get<std::string>();
}

Result<Json> object(std::string_view body) {
  QUERN_ASSIGN(Json json, parse_json(body, "request body", kLimits));
  if (!json.is_object()) return invalid_argument("the request body must be a JSON object");
  return json;
}

}  // namespace

Result<Trigger> parse_trigger(std::string_view body) {
  QUERN_ASSIGN(const Json json, object(body));
  Trigger trigger;
  QUERN_ASSIGN(const std::string glue, text(json, "glueType", 64));
  if (glue != "BEAN")
    return invalid_argument(fmt::format("glueType[{}] is not valid: only BEAN runs here", dump_json(Json(glue))));
  QUERN_ASSIGN(trigger.job_id, number(json, "jobId"));
  QUERN_ASSIGN(trigger.log_id, number(json, "logId"));
  QUERN_ASSIGN(trigger.log_time, number(json, "logDateTime"));
  QUERN_ASSIGN(trigger.timeout_s, number(json, "executorTimeout"));
  QUERN_ASSIGN(trigger.handler, text(json, "executorHandler", kHandlerMax));
  QUERN_ASSIGN(trigger.params, text(json, "executorParams", kParamsMax));
  QUERN_ASSIGN(const std::string strategy, text(json, "executorBlockStrategy", 64));
  if (trigger.log_id == 0) return invalid_argument("logId: is missing");
  if (strategy == "DISCARD_LATER") {
    trigger.strategy = BlockStrategy::kDiscardLater;
  } else if (strategy == "COVER_EARLY") {
    trigger.strategy = BlockStrategy::kCoverEarly;
  } else if (!strategy.empty() && strategy != "SERIAL_EXECUTION") {
    return invalid_argument(fmt::format("executorBlockStrategy: {} is not known", dump_json(Json(strategy))));
  }
  return trigger;
}

Result<LogQuery> parse_log_query(std::string_view body) {
  QUERN_ASSIGN(const Json json, object(body));
  LogQuery query;
  QUERN_ASSIGN(query.log_id, number(json, "logId"));
  QUERN_ASSIGN(query.log_time, number(json, "logDateTim"));
  QUERN_ASSIGN(query.from, number(json, "fromLineNum"));
  if (query.from == 0) query.from = 1;
  return query;
}

Result<int64_t> parse_job_id(std::string_view body) {
  QUERN_ASSIGN(const Json json, object(body));
  return number(json, "jobId");
}

std::string reply(int code, const std::string& message, const Json& content) {
  return dump_json({{"code", code},
                    {"msg", message.empty() ? Json(nullptr) : Json(message)},
                    {"content", content},
                    {"data", content}});
}

std::string log_reply(int64_t from, int64_t to, const std::string& text, bool is_end) {
  return reply(kDone, "", {{"fromLineNum", from}, {"toLineNum", to}, {"logContent", text}, {"isEnd", is_end}});
}

bool is_done(std::string_view answer) {
  const auto json = parse_json(answer, "answer", kLimits);
  return json && json->is_object() && json->value("code", Json()) == kDone;
}

std::string callback_body(const std::vector<Ending>& endings) {
  Json list = Json::array();
  for (const Ending& ending : endings) {
    list.push_back({{"logId", ending.log_id},
                    {"logDateTim", ending.log_time},
                    {"handleCode", ending.code},
                    {"handleMsg", ending.message.substr(0, kMessageMax)}});
  }
  return dump_json(list);
}

std::string registry_body(const std::string& app, const std::string& address) {
  return dump_json({{"registryGroup", "EXECUTOR"}, {"registryKey", app}, {"registryValue", address}});
}

}  // namespace quern::xxljob
