// Routes about people: signing in (password, OIDC), users, keys, bans, the audit log. With people off they say so.
#pragma once

#include <string>

#include "platform/people/oidc.h"
#include "platform/people/people.h"
#include "server/route.h"

namespace quern {

struct PeopleRoutesOptions {
  people::People* people = nullptr;  // null: off
  people::Oidc* oidc = nullptr;      // null: off
  bool has_keys = false;             // static keys are wanted
  std::string root_path;
};

Routes people_routes(const PeopleRoutesOptions& options);

// Its parts.
Routes session_routes(const PeopleRoutesOptions& options);
Routes oidc_routes(const PeopleRoutesOptions& options);
Routes user_routes(people::People* people);
Routes key_routes(people::People* people);
Routes security_routes(people::People* people);

}  // namespace quern
