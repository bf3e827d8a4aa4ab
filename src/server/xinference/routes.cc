#include "server/xinference/routes.h"

namespace quern::xinference {

Routes routes(const platform::Context& context) {
  Routes all;
  for (Routes more : {cluster_routes(context), registration_routes(context), catalog_routes(context),
                      cache_routes(context), autostart_routes(context), absent_routes(), token_routes()}) {
    all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  }
  return all;
}

}  // namespace quern::xinference
