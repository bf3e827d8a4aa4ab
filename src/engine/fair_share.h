// Who is served next among tenants that wait: the one that was given least (virtual token counters: Sheng et al.,
// "Fairness in Serving Large Language Models", OSDI 2024). One owner thread.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace quern {

class FairShare {
 public:
  // A request of the tenant begins to run or wait; ends. Whoever comes back starts level with the least served of those
  // that are there: nobody saves up.
  void enter(uint64_t tenant);
  void leave(uint64_t tenant);
  void add_service(uint64_t tenant, double tokens);

  struct Waiting {
    uint64_t tenant = 0;
    double tokens = 0;  // what serving it first costs
  };
  // An order of service: within a tenant as given, between tenants by what they were given, and what the ones before
  // them in this order will be. `order` gets indices into `waiting`, at most `count`.
  void order(std::span<const Waiting> waiting, size_t count, std::vector<size_t>& order) const;

 private:
  struct Account {
    double served = 0;
    int64_t requests = 0;
  };
  double least_served() const;

  std::unordered_map<uint64_t, Account> accounts_;  // of tenants with requests, and some others
};

}  // namespace quern
