#include <filesystem>
#include <string>

#include "base/check.h"
#include "platform/catalog/catalog.h"
#include "platform/catalog/registrations.h"
#include "platform/model_name.h"
#include "targets.h"

namespace quern::fuzz {
namespace {

void check_stays_inside(const std::string& path) {
  const auto normal = std::filesystem::path(path).lexically_normal();
  QUERN_CHECK(normal.is_relative() && !normal.empty() && *normal.begin() != "..");
}

}  // namespace

void run_names(std::string_view input) {
  const std::string text(input);
  if (is_safe_relative_path(text)) check_stays_inside(text);
  const auto name = parse_model_name(text);
  if (!name) {
    check_refusal(name.error());
  } else if (name->kind == ModelNameKind::kCatalog) {
    static const auto catalog = Catalog::built_in();
    QUERN_CHECK(catalog.has_value());
    if (auto entry = catalog->find(name->name, name->tag); !entry) check_refusal(entry.error());
  } else if (name->kind != ModelNameKind::kPath && name->kind != ModelNameKind::kUrl) {
    check_stays_inside(name->name);
    if (!name->tag.empty()) check_stays_inside(name->tag);
    if (!name->revision.empty()) check_stays_inside(name->revision);
  }
  if (auto catalog = Catalog::parse(text); !catalog) check_refusal(catalog.error());
  const auto registration = parse_registration(text);
  if (!registration) return check_refusal(registration.error());
  check_stays_inside(registration->name);
  for (const CatalogVariant& variant : registration->model.variants) {
    check_stays_inside(variant.tag);
    QUERN_CHECK(!variant.sources.empty());
  }
}

}  // namespace quern::fuzz
