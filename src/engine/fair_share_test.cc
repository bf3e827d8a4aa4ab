#include "engine/fair_share.h"

#include <gtest/gtest.h>

namespace quern {
namespace {

std::vector<size_t> order_of(const FairShare& share, const std::vector<FairShare::Waiting>& waiting, size_t count) {
  std::vector<size_t> order;
  share.order(waiting, count, order);
  return order;
}

TEST(FairShare, TenantsTakeTurnsHoweverManyRequestsEachHas) {
  FairShare share;
  for (int i = 0; i < 4; ++i) share.enter(1);
  share.enter(2);
  share.enter(3);
  const std::vector<FairShare::Waiting> waiting{{1, 10}, {1, 10}, {1, 10}, {1, 10}, {2, 10}, {3, 10}};
  EXPECT_EQ(order_of(share, waiting, 6), (std::vector<size_t>{0, 4, 5, 1, 2, 3}));
  EXPECT_EQ(order_of(share, waiting, 2), (std::vector<size_t>{0, 4}));
}

TEST(FairShare, WhoWasGivenMoreWaitsLonger) {
  FairShare share;
  share.enter(1);
  share.enter(2);
  share.add_service(1, 100);
  EXPECT_EQ(order_of(share, {{1, 10}, {2, 60}, {2, 60}, {2, 60}}, 4), (std::vector<size_t>{1, 2, 0, 3}));
}

TEST(FairShare, NobodySavesUpWhileAway) {
  FairShare share;
  share.enter(1);
  share.add_service(1, 1000);
  share.enter(2);
  share.add_service(2, 5);
  EXPECT_EQ(order_of(share, {{1, 1}, {2, 10}}, 2), (std::vector<size_t>{0, 1})) << "2 began where 1 stood";
  share.leave(1);
  share.enter(1);
  EXPECT_EQ(order_of(share, {{2, 1}, {1, 1}}, 2), (std::vector<size_t>{0, 1})) << "1 came back to where 2 stands";
}

TEST(FairShareDeathTest, LeavingWithoutEntering) {
  FairShare share;
  EXPECT_DEATH(share.leave(1), "");
}

}  // namespace
}  // namespace quern
