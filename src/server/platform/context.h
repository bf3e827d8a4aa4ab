// What the routes that manage models work with.
#pragma once

#include "platform/fleet/fleet.h"
#include "server/api_error.h"
#include "server/platform/running_requests.h"

namespace quern::door {
class Door;
}

namespace quern::platform {

struct Context {
  Fleet* fleet = nullptr;        // null: this server manages no models, it serves those it was started with
  bool changes_allowed = false;  // whoever gets as far as a route may launch, stop and register: files, programs and
                                 // variables of this machine are his to name
  RunningRequests* running = nullptr;
  const door::Door* door = nullptr;  // of the fleet

  // The fleet, or why there is none: 400.
  ApiResult<Fleet*> find_fleet() const;
  // 403 where changes are not allowed.
  ApiResult<void> check_changes() const;
};

// An error of the fleet or the catalogue as the client reads it; what can never fit here is 400.
ApiError platform_error(const Error& error);
ApiError unknown_model(const std::string& uid);  // 404

}  // namespace quern::platform
