#include "base/check.h"
#include "platform/config/server_config.h"
#include "targets.h"

namespace quern::fuzz {

void run_server_config(std::string_view text) {
  const auto config = parse_server_config(text, "/etc/quern/quern.yaml");
  if (!config) return check_refusal(config.error());
  for (const ConfigAdapter& adapter : config->adapters) {
    QUERN_CHECK(!adapter.path.text.empty());
    QUERN_CHECK(adapter.alpha >= -1000.0f && adapter.alpha <= 1000.0f);
  }
  for (const ConfigValue& value : config->serve) {
    QUERN_CHECK(value.key.starts_with("serve.") && value.line >= 1);
    check_refusal(config->refusal(value, {ErrorCode::kInvalidFile, "a reason"}));
  }
}

}  // namespace quern::fuzz
