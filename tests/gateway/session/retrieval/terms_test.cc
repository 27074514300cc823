#include "gateway/session/retrieval/terms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace kvgate::session::retrieval {
namespace {

using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

void ExpectSame(std::string_view a, std::string_view b) {
  EXPECT_THAT(TermsOf(a), ElementsAreArray(TermsOf(b))) << a << " | " << b;
  EXPECT_FALSE(TermsOf(a).empty()) << a;
}

TEST(TermsTest, CaseAndInflectionsAreOneWord) {
  ExpectSame("Ports", "port");
  ExpectSame("cities", "city");
  ExpectSame("boxes", "box");
  ExpectSame("listens listening listened", "listen listen listen");
  ExpectSame("stopped", "stop");
  ExpectSame("moved", "moving");
  ExpectSame("\u00DCBUNG \u0416\u0423\u041A \u0391\u0393\u039F\u03A1\u0391",
             "\u00FCbung \u0436\u0443\u043A \u03B1\u03B3\u03BF\u03C1\u03B1");
  EXPECT_NE(TermsOf("glass"), TermsOf("glas"));
  EXPECT_NE(TermsOf("this7"), TermsOf("thi7"));
}

TEST(TermsTest, WordsThatStandEverywhereSayNothing) {
  EXPECT_THAT(TermsOf("What is the, and where are you?"), IsEmpty());
  EXPECT_THAT(TermsOf(" \xFF\xFE ... \u2014 \u3002"), IsEmpty());
}

TEST(TermsTest, NamesAreFoundByTheirParts) {
  const std::vector<Term> whole = TermsOf("parseHttpHeader");
  for (const std::string_view part : {"parse", "http", "header", "parsehttpheader"}) {
    EXPECT_EQ(std::count(whole.begin(), whole.end(), TermsOf(part).front()), 1) << part;
  }
  ExpectSame("user_name", "user name");
  ExpectSame("src/main.cc", "src main cc");
}

TEST(TermsTest, ScriptsWithoutSpacesAreReadByPairs) {
  const std::vector<Term> terms = TermsOf("\u6771\u4EAC\u90FD");
  EXPECT_EQ(terms.size(), 2u);
  EXPECT_EQ(TermsOf("\u4EAC\u90FD").front(), terms[1]);
  EXPECT_EQ(TermsOf("\u4EAC").size(), 1u);
  EXPECT_EQ(TermsOf("a1 \u6771\u4EAC x2").size(), 3u);
}

TEST(TermsTest, ALongWordCountsByItsBeginning) {
  ExpectSame(std::string(100, 'x') + "a", std::string(100, 'x') + "b");
}

}  // namespace
}  // namespace kvgate::session::retrieval
