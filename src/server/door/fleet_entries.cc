#include "server/door/fleet_entries.h"

namespace quern::door {

Json model_entry(const ModelView& model) {
  Json entry = {{"id", model.spec.uid},
                {"object", "model"},
                {"created", model.created},
                {"owned_by", "quern"},
                {"status", model_state_name(model.state)}};
  if (model.context > 0) entry["max_model_len"] = model.context;
  return entry;
}

}  // namespace quern::door
