#include "base/seal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/digest.h"

namespace kvgate {
namespace {

// The bytes 0, 1, 2, … 31.
constexpr const char* kCounting =
    "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

std::unique_ptr<Keyring> Ring(const std::string& text) {
  auto ring = Keyring::Parse(text, "the test");
  EXPECT_TRUE(ring) << ring.error().ToString();
  return std::move(*ring);
}

TEST(SealTest, GivesBackWhatWasSealedAndHidesItMeanwhile) {
  const auto ring = Keyring::Generate();
  const Keyring::Place place{.purpose = "turns", .tenant = "alice", .name = "1"};
  for (const size_t bytes : {0, 1, 15, 16, 17, 1000, 1 << 20}) {
    const std::string plain(bytes, 'p');
    const std::string sealed = ring->Seal(place, plain);
    EXPECT_EQ(sealed.size(), plain.size() + Keyring::kOverheadBytes);
    EXPECT_EQ(ring->Open(place, sealed).value(), plain);
    EXPECT_EQ(sealed.find("ppppppp"), std::string::npos);
    EXPECT_NE(ring->Seal(place, plain), sealed) << "the nonce is new each time";
  }
}

TEST(SealTest, RefusesEveryFlippedBitAndEveryShorterText) {
  const auto ring = Keyring::Generate();
  const Keyring::Place place{.purpose = "turns", .tenant = "alice", .name = "1"};
  const std::string sealed = ring->Seal(place, "what alice wrote");
  for (size_t bit = 0; bit < 8 * sealed.size(); ++bit) {
    std::string damaged = sealed;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
    EXPECT_FALSE(ring->Open(place, damaged)) << bit;
  }
  for (size_t bytes = 0; bytes < sealed.size(); ++bytes) {
    EXPECT_FALSE(ring->Open(place, sealed.substr(0, bytes))) << bytes;
  }
  EXPECT_FALSE(ring->Open(place, sealed + '\0'));
  EXPECT_TRUE(ring->Open(place, sealed));
}

TEST(SealTest, OpensNowhereElse) {
  const auto ring = Keyring::Generate();
  const Keyring::Place place{.purpose = "turns", .tenant = "alice", .name = "1"};
  const std::string sealed = ring->Seal(place, "what alice wrote");
  for (const Keyring::Place& other :
       {Keyring::Place{"pins", "alice", "1"}, Keyring::Place{"turns", "bob", "1"},
        Keyring::Place{"turns", "alice", "2"}, Keyring::Place{"turns", "alice1", ""},
        Keyring::Place{"turns", "", "alice1"}, Keyring::Place{"turnsalice", "", "1"}}) {
    const auto opened = ring->Open(other, sealed);
    ASSERT_FALSE(opened) << other.purpose << other.tenant << other.name;
    EXPECT_EQ(opened.error().code, ErrorCode::kDataLoss);
  }
}

TEST(SealTest, RotatesByASecretInFrontAndChangesNoSaltByIt) {
  const std::string one = Keyring::GenerateSecret();
  const std::string two = Keyring::GenerateSecret();
  const auto before = Ring(one);
  const auto after = Ring(two + "\n" + one + "\n");
  const auto dropped = Ring(two);
  const Keyring::Place place{.purpose = "turns"};
  const std::string old = before->Seal(place, "old");
  const std::string young = after->Seal(place, "young");
  EXPECT_EQ(after->Open(place, old).value(), "old");
  EXPECT_EQ(after->Derive("salt", "alice"), before->Derive("salt", "alice"));
  EXPECT_EQ(after->deriving_key_id(), before->sealing_key_id());
  EXPECT_EQ(dropped->Open(place, young).value(), "young");
  EXPECT_NE(dropped->Derive("salt", "alice"), before->Derive("salt", "alice"));
  // Data sealed with an unknown secret is distinguished from damaged data.
  for (const auto& [ring, sealed] : {std::pair(&before, &young), {&dropped, &old}}) {
    EXPECT_EQ((*ring)->Open(place, *sealed).error().code, ErrorCode::kPermissionDenied);
    EXPECT_FALSE((*ring)->Knows(*sealed));
  }
  EXPECT_TRUE(after->Knows(old));
  EXPECT_FALSE(after->Knows("plain text that is long enough to be a sealed one, but is none"));
}

TEST(SealTest, OpensWithSecretsThatItNeitherSealsNorDerivesWith) {
  const auto shared = Keyring::Generate();
  const auto file = Keyring::Generate();
  const Keyring::Place place{.purpose = "pins"};
  const std::string sealed = file->Seal(place, "of the file");
  const auto deriving = shared->deriving_key_id();
  shared->AddForOpening(*file);
  shared->AddForOpening(*file);
  EXPECT_EQ(shared->Open(place, sealed).value(), "of the file");
  EXPECT_EQ(shared->deriving_key_id(), deriving);
  EXPECT_FALSE(file->Open(place, shared->Seal(place, "of the other")));
}

// Data on disk depends on these values, which were computed with Python's hmac from the definition
// in seal.h.
TEST(SealTest, DerivesWhatItsFormatSays) {
  const auto ring = Ring(kCounting);
  EXPECT_EQ(ToHex(ring->sealing_key_id()), "0bc48ddfb2723d03");
  EXPECT_EQ(ToHex(ring->Derive("salt", "alice")),
            "29bd526e4d7586b172352387626b3bb3949a6a7d9c0fe428af4a8de7fb95a367");
  // Sealed by another implementation of AES-256-GCM, with the nonce 0, 1, 2, … 11.
  constexpr const char* kSealed =
      "010bc48ddfb2723d03000102030405060708090a0b4791d0ea68ab561783114f462b0c"
      "1dbd3817f27fdb";
  std::string sealed;
  for (const char* hex = kSealed; *hex != '\0'; hex += 2) {
    sealed += static_cast<char>(std::stoi(std::string(hex, 2), nullptr, 16));
  }
  EXPECT_EQ(ring->Open({.purpose = "turns", .tenant = "alice", .name = "1"}, sealed).value(),
            "hello");
  std::set<Keyring::Secret> different;
  for (const char* purpose : {"salt", "names"}) {
    for (const char* name : {"", "alice", "bob"}) different.insert(ring->Derive(purpose, name));
  }
  EXPECT_EQ(different.size(), 6u);
}

TEST(SealTest, ReadsSecretsAsOperatorsWriteThem) {
  const std::string base64 = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
  const auto hex = Ring(kCounting);
  std::string upper = kCounting;
  std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return std::toupper(c); });
  for (const std::string& text : {base64, base64.substr(0, 43), upper, "  " + base64 + " \r\n",
                                  "# of 2026, the first, a,b\n\n" + base64}) {
    EXPECT_EQ(Ring(text)->sealing_key_id(), hex->sealing_key_id()) << text;
  }
  const std::string other = Keyring::GenerateSecret();
  for (const std::string separator : {",", "\n", ", \n"}) {
    const auto two = Ring(other + separator + base64);
    EXPECT_EQ(two->sealing_key_id(), Ring(other)->sealing_key_id());
    EXPECT_EQ(two->deriving_key_id(), hex->deriving_key_id());
  }
}

TEST(SealTest, RefusesSecretsThatAreNoneAndRepeatsNoneOfThem) {
  std::string many;
  for (size_t i = 0; i <= Keyring::kSecretsMax; ++i) many += Keyring::GenerateSecret() + ",";
  const std::string once = Keyring::GenerateSecret();
  for (const auto& [text, says] : std::vector<std::pair<std::string, std::string>>{
           {"", "no secret"},
           {" \n,# x", "no secret"},
           {"correct horse battery staple and more", "neither hex nor base64"},
           {std::string(kCounting).substr(2), "too short"},
           {std::string(64, 'a'), "not random"},
           {std::string(2 * Keyring::kSecretBytesMax + 2, 'a'), "too long"},
           {std::string(Keyring::kTextBytesMax + 1, 'a'), "the limit is"},
           {once + "," + once, "twice"},
           {many, "one too many"}}) {
    const auto ring = Keyring::Parse(text, "environment variable X");
    ASSERT_FALSE(ring) << says;
    EXPECT_EQ(ring.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(ring.error().detail.find(says), std::string::npos) << ring.error().detail;
    EXPECT_NE(ring.error().detail.find("environment variable X"), std::string::npos);
    if (text.size() <= 8) continue;
    EXPECT_EQ(ring.error().detail.find(text.substr(0, 8)), std::string::npos);
  }
}

TEST(SealTest, ServesSeveralThreadsAtOnce) {
  const auto ring = Keyring::Generate();
  std::vector<std::thread> threads;
  std::array<int, 4> right{};
  for (size_t t = 0; t < right.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const std::string purpose = "purpose " + std::to_string(i % 5);
        const std::string plain = std::to_string(t) + " " + std::to_string(i);
        const auto opened =
            ring->Open({.purpose = purpose}, ring->Seal({.purpose = purpose}, plain));
        right[t] += opened && *opened == plain ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int count : right) EXPECT_EQ(count, 200);
}

}  // namespace
}  // namespace kvgate
