// A model as clients see it in GET /v1/models: OpenAI's fields, Xinference's description, and ours. One of this process
// and one of the fleet look the same.
#pragma once

#include "base/json.h"
#include "platform/catalog/catalog.h"
#include "platform/fleet/fleet.h"
#include "server/model_table.h"

namespace quern::platform {

// {"id","object","created","owned_by","task","max_model_len", "model_type","address",…,"status","replicas":[…]}.
// `catalog` tells what a name of it means; values of the environment that a model was launched with are not shown.
Json describe(const ModelView& model, const Catalog& catalog);
Json describe(const ServedModel& model);

// {"id","state",…} with Xinference's keys of a replica's status.
Json describe(const ReplicaView& replica, const ModelView& model);

// The model's type as Xinference names it; "classify" of a classifier, which it has not.
std::string_view type_of(const ServedModel& model);
std::vector<std::string> abilities_of(const ServedModel& model);  // in its words
std::vector<std::string> abilities_of(const ModelView& model);

}  // namespace quern::platform
