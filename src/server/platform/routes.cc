#include "server/platform/routes.h"

namespace quern::platform {

Routes routes(const Context& context) {
  Routes all = replica_routes(context);
  for (Routes more : {event_routes(context), model_routes(context)}) {
    all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  }
  return all;
}

}  // namespace quern::platform
