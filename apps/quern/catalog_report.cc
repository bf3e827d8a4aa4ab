#include "catalog_report.h"

#include <fmt/format.h>

#include <cstdio>

namespace quern::cli {
std::string size_text(int64_t bytes) {
  if (bytes < 0) return "?";
  if (bytes >= (int64_t{1} << 30)) return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30));
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

void print_json(const Json& json) {
  std::printf("%s\n", dump_json(json, 2).c_str());
}

Json stored_json(const StoredModel& model) {
  return {{"name", model.name},
          {"path", model.path.string()},
          {"bytes", model.bytes},
          {"source", model.source},
          {"pulled_at", model.pulled_at}};
}

}  // namespace quern::cli
