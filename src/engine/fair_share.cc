#include "engine/fair_share.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace quern {

namespace {
constexpr size_t kAccountsMax = 4096;  // beyond, those of tenants that are away are forgotten
}  // namespace

double FairShare::least_served() const {
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [tenant, account] : accounts_) {
    if (account.requests > 0) least = std::min(least, account.served);
  }
  return least == std::numeric_limits<double>::infinity() ? 0 : least;
}

void FairShare::enter(uint64_t tenant) {
  Account& account = accounts_[tenant];
  if (account.requests == 0) account.served = std::max(account.served, least_served());
  ++account.requests;
}

void FairShare::leave(uint64_t tenant) {
  const auto found = accounts_.find(tenant);
  QUERN_CHECK(found != accounts_.end() && found->second.requests > 0);
  --found->second.requests;
  if (accounts_.size() > kAccountsMax) {
    std::erase_if(accounts_, [](const auto& entry) { return entry.second.requests == 0; });
  }
}

void FairShare::add_service(uint64_t tenant, double tokens) {
  if (const auto found = accounts_.find(tenant); found != accounts_.end()) found->second.served += tokens;
}

void FairShare::order(std::span<const Waiting> waiting, size_t count, std::vector<size_t>& order) const {
  struct Line {
    double served = 0;
    std::vector<size_t> members;
    size_t next = 0;
  };
  std::vector<Line> lines;  // by first appearance: ties go to who came first
  std::unordered_map<uint64_t, size_t> line_of;
  for (size_t i = 0; i < waiting.size(); ++i) {
    const auto [place, is_new] = line_of.try_emplace(waiting[i].tenant, lines.size());
    if (is_new) {
      const auto account = accounts_.find(waiting[i].tenant);
      lines.push_back({.served = account == accounts_.end() ? 0 : account->second.served});
    }
    lines[place->second].members.push_back(i);
  }
  order.clear();
  while (order.size() < std::min(count, waiting.size())) {
    Line* best = nullptr;
    for (Line& line : lines) {
      if (line.next < line.members.size() && (best == nullptr || line.served < best->served)) best = &line;
    }
    const size_t member = best->members[best->next++];
    best->served += waiting[member].tokens;
    order.push_back(member);
  }
}

}  // namespace quern
