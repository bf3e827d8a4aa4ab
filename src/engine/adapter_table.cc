#include "engine/adapter_table.h"

#include <algorithm>
#include <tuple>

#include "base/status.h"

namespace quern {

namespace {

std::unexpected<Error> unknown(const std::string& name) {
  return make_error(ErrorCode::kNotFound, fmt::format("adapter: '{}' is not loaded", name));
}
std::unexpected<Error> taken(const std::string& name) {
  return invalid_argument(fmt::format("adapter: '{}' is already loaded", name));
}

}  // namespace

Result<AdapterTable::Use> AdapterTable::use(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(name);
  if (found == entries_.end()) return unknown(name);
  found->second.last_use = ++uses_;
  return Use{found->second.adapter, found->second.info.scale};
}

Status AdapterTable::check_free(const std::string& name, bool reload) const {
  const std::lock_guard lock(mutex_);
  if (!reload && entries_.contains(name)) return taken(name);
  return {};
}

void AdapterTable::evict() {
  const auto oldest = std::ranges::min_element(entries_, {}, [](const auto& entry) {
    return std::tuple(entry.second.adapter.use_count() > 1, entry.second.last_use);
  });
  entries_.erase(oldest);
}

Status AdapterTable::add(AdapterInfo info, std::shared_ptr<const Adapter> adapter, bool reload) {
  const std::lock_guard lock(mutex_);
  if (!reload && entries_.contains(info.name)) return taken(info.name);
  if (!entries_.contains(info.name) && entries_.size() >= static_cast<size_t>(count_max_)) evict();
  const std::string name = info.name;
  entries_.insert_or_assign(name, Entry{std::move(info), std::move(adapter), ++uses_});
  return {};
}

Status AdapterTable::remove(const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (entries_.erase(name) == 0) return unknown(name);
  return {};
}

std::vector<AdapterInfo> AdapterTable::list() const {
  const std::lock_guard lock(mutex_);
  std::vector<AdapterInfo> list;
  for (const auto& [name, entry] : entries_) list.push_back(entry.info);
  return list;
}

}  // namespace quern
