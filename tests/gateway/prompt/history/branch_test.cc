#include "gateway/prompt/history/branch.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace kvgate::prompt::history {
namespace {

std::shared_ptr<const std::string> Text(const char* text) {
  return std::make_shared<const std::string>(text);
}

parse::Place At(int32_t element) { return {.field = "messages", .element = element}; }

void Add(Branch& branch, int32_t element, const char* sent, bool is_ours = false,
         const char* callers = nullptr) {
  SentSegment segment;
  segment.place = At(element);
  segment.bytes = Text(sent);
  segment.is_ours = is_ours;
  branch.request.segments.push_back(segment);
  CallerForm form;
  if (callers != nullptr) form.caller = Text(callers);
  branch.forms.push_back(form);
}

Branch TwoTurns() {
  Branch branch;
  Add(branch, 0, "sent", false, "callers");
  Add(branch, 1, "ours", true);
  Add(branch, 1, "as it came");
  return branch;
}

TEST(BranchTest, BytesAreFoundByPlaceInBothForms) {
  const Branch branch = TwoTurns();
  EXPECT_EQ(*BytesAt(branch, At(0), true), "callers");
  EXPECT_EQ(*BytesAt(branch, At(0), false), "sent");
  EXPECT_EQ(*BytesAt(branch, At(1), true), "as it came");
  EXPECT_EQ(*BytesAt(branch, At(1), false), "as it came");
  EXPECT_EQ(BytesAt(branch, At(2), true), nullptr);
}

TEST(BranchTest, WithoutBytesTheStructureStays) {
  Branch branch = TwoTurns();
  branch.bytes = 1'000'000;
  DropBytes(branch);
  EXPECT_EQ(branch.request.segments.size(), 3U);
  EXPECT_EQ(branch.forms.size(), 3U);
  EXPECT_EQ(BytesAt(branch, At(0), true), nullptr);
  EXPECT_LT(branch.bytes, 10'000U);
}

}  // namespace
}  // namespace kvgate::prompt::history
