#include "server/people/gate.h"

#include <algorithm>

#include "base/status.h"
#include "server/people/asked_models.h"

namespace quern {
namespace {

using people::Identified;
using people::Principal;
using people::Scope;
using people::Verdict;

constexpr size_t kCredentialMax = 16 * 1024;
constexpr size_t kAuditedBodyMax = 64 * 1024;

ApiError unknown_key(std::string message = "a valid API key is needed") {
  return {.status = 401, .message = std::move(message), .type = "authentication_error", .code = "invalid_api_key"};
}

ApiError banned(int64_t seconds) {
  return {.status = 429,
          .message = "too many failed attempts: try again later",
          .type = "rate_limit_error",
          .code = "banned",
          .retry_after_s = static_cast<int32_t>(std::min<int64_t>(seconds, INT32_MAX))};
}

ApiError not_allowed(std::string message, std::string code) {
  return {.status = 403, .message = std::move(message), .type = "permission_error", .code = std::move(code)};
}

ApiError forbidden_model(const std::string& model) {
  ApiError error = not_allowed(model.empty() ? "model: this key is for certain models, so the request must name one"
                                             : fmt::format("model: this key is not for '{:.200}'", model),
                               "model_not_allowed");
  error.param = "model";
  return error;
}

std::optional<ApiError> refusal_of(Verdict verdict, Scope needed) {
  switch (verdict) {
    case Verdict::kAllowed: return std::nullopt;
    case Verdict::kExpired: return unknown_key("the key or token has expired");
    case Verdict::kPasswordDue:
      return not_allowed("the password must be changed first: POST /v1/auth/password", "password_change_needed");
    case Verdict::kScopeMissing:
      return not_allowed(fmt::format("the scope {} is needed", scope_name(needed)), "insufficient_scope");
    case Verdict::kModelForbidden: break;
  }
  return forbidden_model("");
}

// As OpenAI writes them: "1s", "6m0s", "120ms".
std::string duration_text(int64_t ms) {
  if (ms < 1000) return fmt::format("{}ms", ms);
  const int64_t seconds = (ms + 999) / 1000;
  return seconds < 60 ? fmt::format("{}s", seconds) : fmt::format("{}m{}s", seconds / 60, seconds % 60);
}

void tell_allowance(const char* what, const people::Allowance& allowance, http::Reply& reply) {
  if (allowance.limit == 0) return;
  reply.set_header(fmt::format("x-ratelimit-limit-{}", what), std::to_string(allowance.limit));
  reply.set_header(fmt::format("x-ratelimit-remaining-{}", what), std::to_string(allowance.remaining));
  reply.set_header(fmt::format("x-ratelimit-reset-{}", what), duration_text(allowance.reset_ms));
}

// What a changing request is about: what stands in its path and the names in its body.
std::string audited_target(const http::Request& request) {
  std::string target;
  const auto add = [&](const std::string& part) {
    if (part.empty()) return;
    if (!target.empty()) target += ' ';
    target += part;
  };
  for (const std::string& param : request.params) add(param);
  if (request.body.empty() || request.body.size() > kAuditedBodyMax) return target;
  const auto body = parse_json(request.body, "request body");
  if (!body || !body->is_object()) return target;
  for (const char* name : {"username", "owner", "name", "model_uid", "model_name", "model", "address", "role"}) {
    const auto field = body->find(name);
    if (field != body->end() && field->is_string()) add(fmt::format("{}={}", name, field->get<std::string>()));
  }
  return target;
}

}  // namespace

Gate::Visit::~Visit() {
  if (people_ != nullptr) people_->done(key_, quotas_, reply_->tokens());
}

std::optional<ApiError> Gate::check_credential(http::Request& request, Visit& visit) const {
  if (keys_.fits(request)) {
    request.principal = std::make_shared<const Principal>(people::static_principal());
    return std::nullopt;
  }
  if (join_tokens_.fits(request)) {
    request.principal = std::make_shared<const Principal>(people::joining_principal());
    return std::nullopt;
  }
  const auto credential = key_of(request);
  if (people_ == nullptr || !credential || credential->empty()) return unknown_key();
  if (credential->size() > kCredentialMax) return unknown_key();
  Identified found = people_->identify(std::string(*credential));
  switch (found.kind) {
    case Identified::Kind::kKnown: break;
    case Identified::Kind::kStale: return unknown_key(found.reason);
    case Identified::Kind::kBanned: return banned(found.retry_after_s);
    case Identified::Kind::kUnknown:
      record_refusal(request, people_->count_failure(request.peer, std::string(*credential)) ? "banned" : "401");
      return unknown_key(found.reason);
  }
  if (found.principal.kind == Principal::Kind::kApiKey) visit.key_ = found.principal.id;
  visit.quotas_ = found.quotas;
  request.principal = std::make_shared<const Principal>(std::move(found.principal));
  return std::nullopt;
}

std::optional<ApiError> Gate::identify(http::Request& request, const Route* route, Visit& visit) const {
  if (!trusted_.empty()) {
    std::string forwarded;
    for (const auto& [name, value] : request.headers) {
      if (name == "x-forwarded-for") forwarded += (forwarded.empty() ? "" : ",") + value;
    }
    request.peer = people::client_address(request.peer, forwarded, trusted_);
  }
  if (route != nullptr && route->access != Access::kKey) return std::nullopt;
  // A machine that joins gets requests of everybody: it needs a token even where nobody else does.
  const bool joins = route != nullptr && route->scope == Scope::kNodesJoin;
  if (is_open() && !joins) return std::nullopt;
  if (people_ != nullptr && !request.peer.empty()) {
    if (const int64_t seconds = people_->banned_seconds(request.peer); seconds > 0) return banned(seconds);
  }
  return check_credential(request, visit);
}

std::optional<ApiError> Gate::admit(const ModelTable& models, const http::Request& request, const Route& route,
                                    http::Reply& reply, Visit& visit) const {
  if (!request.principal || route.access != Access::kKey) return std::nullopt;
  const Principal& who = *request.principal;
  const int64_t now = people_ != nullptr ? people_->now() : 0;  // keys given at start do not expire
  const auto refusal = refusal_of(authorize(who, route.scope, std::nullopt, now), route.scope);
  if (refusal || people_ == nullptr) return refusal;
  if (!who.all_models()) {
    // A job's lines run later and for nobody: what is asked of a key for certain models would not hold for them.
    if (route.scope == Scope::kJobsWrite)
      return not_allowed("a key for certain models cannot write jobs", "model_not_allowed");
    const AskedModels asked = asked_models(models, request, route);
    if (!asked.known) return forbidden_model("");
    for (const std::string& model : asked.names) {
      if (authorize(who, route.scope, model, people_->now()) != Verdict::kAllowed) return forbidden_model(model);
    }
  }
  if (visit.key_.empty() || route.scope != Scope::kModelsRead) return std::nullopt;
  const people::Admission admission = people_->admit(visit.key_, visit.quotas_);
  tell_allowance("requests", admission.requests, reply);
  tell_allowance("tokens", admission.tokens, reply);
  if (!admission.refused_by.empty()) {
    return ApiError{.status = 429,
                    .message = fmt::format("the key's quota of {} is used up", admission.refused_by),
                    .type = "rate_limit_error",
                    .code = "rate_limit_exceeded",
                    .retry_after_s = static_cast<int32_t>((admission.retry_after_ms + 999) / 1000)};
  }
  visit.people_ = people_;
  visit.reply_ = &reply;
  return std::nullopt;
}

void Gate::record(const http::Request& request, const Route& route, int status) const {
  if (people_ == nullptr || route.access != Access::kKey || route.method == "GET") return;
  if (route.scope == Scope::kModelsRead || route.scope == Scope::kModelsList || status == 401 || status == 429) return;
  const people::AuditLine line{.time = people_->now(),
                               .who = request.principal ? request.principal->name : "nobody",
                               .action = route.method + " " + route.path,
                               .target = audited_target(request),
                               .address = request.peer,
                               .outcome = status >= 200 && status < 300 ? "ok" : std::to_string(status)};
  // What was done stays done when it cannot be written down; the database's own trouble shows with the next request.
  (void)people_->audit().add(line);
}

void Gate::record_refusal(const http::Request& request, const std::string& what) const {
  const people::AuditLine line{.time = people_->now(),
                               .who = "nobody",
                               .action = "unknown key",
                               .target = request.method + " " + request.path,
                               .address = request.peer,
                               .outcome = what};
  (void)people_->audit().add(line);
}

}  // namespace quern
