#include "base/check.h"
#include "base/json.h"
#include "targets.h"

namespace quern::fuzz {

// What is accepted survives being written and read again.
void run_json(std::string_view text) {
  const auto json = parse_json(text, "text");
  if (!json) return check_refusal(json.error());
  const std::string written = dump_json(*json);
  const auto again = parse_json(written, "written");
  QUERN_CHECK(again.has_value());
  QUERN_CHECK(dump_json(*again) == written);
}

}  // namespace quern::fuzz
