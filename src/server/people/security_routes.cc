// Bans and the audit log.
#include <charconv>

#include "base/status.h"
#include "server/fields.h"
#include "server/people/people_json.h"
#include "server/people/routes.h"

namespace quern {
namespace {

using people::People;
using people::Scope;

Json rule_json(const people::FailureRule& rule) {
  return {{"failures", rule.failures_max}, {"window_seconds", rule.window_s}, {"ban_seconds", rule.ban_s}};
}

ApiResult<Json> security(People& people, const http::Request&) {
  Json bans = Json::array();
  for (const people::Ban& ban : people.bans()) bans.push_back({{"subject", ban.subject}, {"until", ban.until}});
  return Json{{"bans", std::move(bans)},
              {"rules",
               {{"address", rule_json(people.options().address_rule)},
                {"user_or_key", rule_json(people.options().subject_rule)}}},
              {"access_token_seconds", people::kAccessSeconds},
              {"refresh_token_seconds", people::kRefreshSeconds},
              {"audit_days", people::kAuditDays}};
}

ApiResult<Json> add_ban(People& people, const http::Request& request) {
  const auto body = object_body(request);
  if (!body) return std::unexpected(body.error());
  Fields fields(*body);
  const auto address = fields.string("address");
  const int64_t seconds = fields.integer("seconds", 1, 366 * 86400).value_or(people.options().address_rule.ban_s);
  if (!address) fields.fault("address", "address: is missing");
  fields.refuse_unknown();
  if (!fields.ok()) return std::unexpected(fields.take_error());
  if (const Status banned = people.ban(*address, seconds); !banned)
    return std::unexpected(people_error(banned.error()));
  return security(people, request);
}

ApiResult<Json> remove_ban(People& people, const http::Request& request) {
  if (people.unban(request.params[0])) return security(people, request);
  return std::unexpected(ApiError{.status = 404, .message = fmt::format("'{:.64}' is not banned", request.params[0])});
}

Json line_json(const people::AuditLine& line) {
  return {{"id", line.id},         {"time", line.time},       {"who", line.who},        {"action", line.action},
          {"target", line.target}, {"address", line.address}, {"outcome", line.outcome}};
}

ApiResult<people::AuditQuery> read_query(const http::Request& request) {
  people::AuditQuery query;
  const auto text = [&](const char* name, std::string& value) {
    if (const auto given = request.query_value(name)) value = std::string(*given);
  };
  text("who", query.who);
  text("action", query.action);
  text("target", query.target);
  text("address", query.address);
  text("outcome", query.outcome);
  std::string wrong;
  const auto number = [&](const char* name, int64_t& value) {
    const auto given = request.query_value(name);
    if (!given) return;
    const auto [end, error] = std::from_chars(given->data(), given->data() + given->size(), value);
    if (error != std::errc() || end != given->data() + given->size() || value < 0) wrong = name;
  };
  number("since", query.since);
  number("until", query.until);
  number("before", query.before);
  number("limit", query.limit);
  if (!wrong.empty()) return bad_field(wrong, wrong + ": must be a whole number");
  return query;
}

ApiResult<Json> search_audit(People& people, const http::Request& request) {
  const auto query = read_query(request);
  if (!query) return std::unexpected(query.error());
  const auto page = people.audit().search(*query);
  if (!page) return std::unexpected(people_error(page.error()));
  Json data = Json::array();
  for (const people::AuditLine& line : page->lines) data.push_back(line_json(line));
  return Json{{"object", "list"},
              {"data", std::move(data)},
              {"total", page->total},
              {"next_before", page->next_before == 0 ? Json(nullptr) : Json(page->next_before)}};
}

}  // namespace

Routes security_routes(People* people) {
  const auto route = [people](const char* method, const char* path, PeopleWork work) {
    return needs(Scope::kUsersManage, {method, path, people_route(people, std::move(work))});
  };
  return {
      route("GET", "/v1/admin/security", security),
      route("POST", "/v1/admin/security/bans", add_ban),
      route("DELETE", "/v1/admin/security/bans/{subject*}", remove_ban),
      route("GET", "/v1/audit/search", search_audit),
  };
}

}  // namespace quern
