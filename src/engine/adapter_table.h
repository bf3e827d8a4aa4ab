// The LoRA adapters that requests can name. Thread-safe; whoever uses one holds it, so unloading never pulls it from
// under a running answer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "models/adapters/adapter.h"
#include "quern/engine.h"
#include "quern/status.h"

namespace quern {

class AdapterTable {
 public:
  explicit AdapterTable(int32_t count_max) : count_max_(count_max) {}

  struct Use {
    std::shared_ptr<const Adapter> adapter;
    float scale = 1.0f;
  };
  // kNotFound for an unknown name. Counts as a use.
  Result<Use> use(const std::string& name);

  // kInvalidArgument when the name is taken, unless `reload`: asked before the file is read, and again by add().
  Status check_free(const std::string& name, bool reload) const;
  // Over the limit the adapter that was used longest ago goes, one that no answer uses now if there is one.
  Status add(AdapterInfo info, std::shared_ptr<const Adapter> adapter, bool reload);
  Status remove(const std::string& name);
  std::vector<AdapterInfo> list() const;  // by name

 private:
  struct Entry {
    AdapterInfo info;
    std::shared_ptr<const Adapter> adapter;
    uint64_t last_use = 0;
  };
  void evict();

  const int32_t count_max_;
  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_;  // guarded by mutex_
  uint64_t uses_ = 0;                     // guarded by mutex_
};

}  // namespace quern
