#include "people_database.h"

#include <ctime>

#include "base/status.h"
#include "platform/home.h"

namespace quern::cli {

Result<std::unique_ptr<people::People>> open_people_database() {
  return people::People::open({.folder = quern_home()});
}

Status note_change(people::People& people, const std::string& action, const std::string& target) {
  people::AuditLine line;
  line.time = people.now();
  line.who = "command line";
  line.action = action;
  line.target = target;
  line.outcome = "ok";
  return people.audit().add(line);
}

std::string date_text(int64_t seconds) {
  if (seconds == 0) return "never";
  const std::time_t time = seconds;
  std::tm parts{};
  gmtime_r(&time, &parts);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                     parts.tm_hour, parts.tm_min);
}

}  // namespace quern::cli
