// The users and keys that `quern user` and `quern key` change: those of the server with the same QUERN_HOME, which sees
// the change within a second.
#pragma once

#include <memory>
#include <string>

#include "platform/people/people.h"

namespace quern::cli {

Result<std::unique_ptr<people::People>> open_people_database();
// A line of the audit log.
Status note_change(people::People& people, const std::string& action, const std::string& target);
std::string date_text(int64_t seconds);  // UTC; "never" for 0

}  // namespace quern::cli
