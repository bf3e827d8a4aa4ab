#include "server/model_body.h"

#include "server/route.h"

namespace quern {

ApiResult<ModelBody> read_model_body(const ModelTable& models, const http::Request& request,
                                     ApiResult<const ServedModel*> (ModelTable::*find)(const std::string&) const) {
  auto body = parse_body(request);
  if (!body) return std::unexpected(body.error());
  const auto name = model_name_of(*body);
  if (!name) return std::unexpected(name.error());
  const auto model = (models.*find)(*name);
  if (!model) return std::unexpected(model.error());
  return ModelBody{.body = std::move(*body), .model = *model};
}

ApiResult<GeneratorBody> read_generator_body(const ModelTable& models, const http::Request& request) {
  auto body = parse_body(request);
  if (!body) return std::unexpected(body.error());
  const auto name = model_name_of(*body);
  if (!name) return std::unexpected(name.error());
  auto choice = models.choose(*name);
  if (!choice) return std::unexpected(choice.error());
  return GeneratorBody{.body = std::move(*body), .model = choice->model, .adapter = std::move(choice->adapter)};
}

}  // namespace quern
