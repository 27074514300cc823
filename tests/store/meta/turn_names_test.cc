#include "store/meta/turn_names.h"

#include <gtest/gtest.h>

#include <set>

namespace kvgate::store::meta {
namespace {

TEST(TurnNamesTest, TheyDifferByTenantKindAndSecret) {
  const auto ring = Keyring::Generate();
  const TurnNames names(*ring);
  const auto other = Keyring::Generate();
  const TurnNames others(*other);
  const std::set<TurnName> different = {
      names.Tenant("a"),        names.Tenant("b"),       names.Tenant(""),
      names.Id("a", "bc"),      names.Id("ab", "c"),     names.Id("", "abc"),
      names.Session("a", "bc"), names.Session("ab", ""), names.Content("a", PrefixDigest()),
      others.Tenant("a"),       others.Id("a", "bc")};
  EXPECT_EQ(different.size(), 11u);
  EXPECT_EQ(names.Id("a", "bc"), TurnNames(*ring).Id("a", "bc"));
}

}  // namespace
}  // namespace kvgate::store::meta
