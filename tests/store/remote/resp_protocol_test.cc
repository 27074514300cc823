#include "store/remote/resp_protocol.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <random>

namespace kvgate::store::remote {
namespace {

using Kind = RespReply::Kind;

constexpr size_t kLimit = 1 << 20;

RespReply Text(std::string text) { return {.kind = Kind::kText, .text = std::move(text)}; }
RespReply Failure(std::string text) { return {.kind = Kind::kError, .text = std::move(text)}; }
RespReply Integer(int64_t value) { return {.kind = Kind::kInteger, .integer = value}; }
RespReply Array(std::vector<RespReply> items) {
  return {.kind = Kind::kArray, .items = std::move(items)};
}

// What a reader makes of the bytes if they come in pieces of these sizes, the last one repeated.
struct Read {
  std::vector<RespReply> replies;
  std::optional<Error> error;
  bool is_between = true;
};
Read ReadPieces(std::string_view bytes, std::vector<size_t> pieces, size_t limit = kLimit) {
  RespReader reader(limit);
  Read read;
  size_t piece = 0;
  while (!bytes.empty()) {
    const std::span<char> space = reader.Space();
    EXPECT_FALSE(space.empty());
    const size_t size = std::min({space.size(), bytes.size(), pieces[piece]});
    if (piece + 1 < pieces.size()) ++piece;
    std::memcpy(space.data(), bytes.data(), size);
    reader.Add(size);
    bytes.remove_prefix(size);
    RespReply reply;
    while (true) {
      const Result<bool> is_whole = reader.Next(reply);
      if (!is_whole) {
        read.error = is_whole.error();
        return read;
      }
      if (!*is_whole) break;
      read.replies.push_back(std::move(reply));
    }
  }
  read.is_between = reader.is_between_replies();
  return read;
}

// Every kind of item, and pushes and attributes where they may stand.
const std::string kStream =
    "+OK\r\n-ERR no such "
    "thing\r\n:-12\r\n:+7\r\n$5\r\na\r\nbc\r\n$0\r\n\r\n$-1\r\n*-1\r\n_\r\n#t\r\n"
    "#f\r\n,3.25e2\r\n(12345678901234567890123\r\n=7\r\ntxt:a\r\n\r\n!8\r\nERR a\r\nb\r\n"
    ">2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n*0\r\n%0\r\n*3\r\n:1\r\n*2\r\n+a\r\n*0\r\n$1\r\nx\r\n"
    "|1\r\n+ttl\r\n:3600\r\n%2\r\n+a\r\n~1\r\n:1\r\n|1\r\n+k\r\n%1\r\n+x\r\n*1\r\n:1\r\n+b\r\n_\r\n"
    "|0\r\n>0\r\n*1\r\n|0\r\n:5\r\n+last\r\n>1\r\n+push\r\n";
const std::vector<RespReply> kReplies = {
    Text("OK"),
    Failure("ERR no such thing"),
    Integer(-12),
    Integer(7),
    Text("a\r\nbc"),
    Text(""),
    RespReply(),
    RespReply(),
    RespReply(),
    Integer(1),
    Integer(0),
    Text("3.25e2"),
    Text("12345678901234567890123"),
    Text("a\r\n"),
    Failure("ERR a\r\nb"),
    Array({}),
    Array({}),
    Array({Integer(1), Array({Text("a"), Array({})}), Text("x")}),
    Array({Text("a"), Array({Integer(1)}), Text("b"), RespReply()}),
    Array({Integer(5)}),
    Text("last")};

TEST(RespProtocolTest, AReplyIsTheSameHoweverItsBytesAreDivided) {
  for (size_t first = 0; first <= kStream.size(); ++first) {
    const Read read = ReadPieces(kStream, {std::max<size_t>(first, 1), kStream.size()});
    ASSERT_FALSE(read.error) << first << ": " << read.error->ToString();
    ASSERT_TRUE(read.replies == kReplies) << first;
    EXPECT_TRUE(read.is_between);
  }
  for (size_t size = 1; size <= 64; ++size) {
    const Read read = ReadPieces(kStream, {size});
    ASSERT_FALSE(read.error) << size << ": " << read.error->ToString();
    ASSERT_TRUE(read.replies == kReplies) << size;
  }
  std::mt19937 random(1);
  for (int round = 0; round < 500; ++round) {
    std::vector<size_t> pieces(40);
    for (size_t& piece : pieces) piece = 1 + random() % 17;
    ASSERT_TRUE(ReadPieces(kStream, pieces).replies == kReplies) << round;
  }
}

TEST(RespProtocolTest, APrefixOfRepliesIsNoError) {
  for (size_t size = 0; size < kStream.size(); ++size) {
    const Read read = ReadPieces(std::string_view(kStream).substr(0, size), {3});
    ASSERT_FALSE(read.error) << size << ": " << read.error->ToString();
    EXPECT_TRUE(std::equal(read.replies.begin(), read.replies.end(), kReplies.begin()));
  }
  EXPECT_FALSE(ReadPieces("*2\r\n:1\r\n", {100}).is_between);
  EXPECT_FALSE(ReadPieces("$3\r\n", {100}).is_between);
  EXPECT_FALSE(ReadPieces("$3\r\nab", {100}).is_between);
  EXPECT_FALSE(ReadPieces("+", {100}).is_between);
}

TEST(RespProtocolTest, LongTextsOfAllBytesAreWhole) {
  std::mt19937_64 random(2);
  std::string stream;
  std::vector<RespReply> expected;
  for (const size_t size :
       {100, 4094, 4096, 16'000, 16'384, 20'000, 300'000, 700'000, 1, 262'144}) {
    std::string text(size, '\0');
    for (char& byte : text) byte = static_cast<char>(random());
    stream += "*2\r\n$" + std::to_string(size) + "\r\n" + text + "\r\n+next\r\n";
    expected.push_back(Array({Text(std::move(text)), Text("next")}));
  }
  EXPECT_TRUE(ReadPieces(stream, {stream.size()}).replies == expected);
  EXPECT_TRUE(ReadPieces(stream, {4097}).replies == expected);
  for (int round = 0; round < 20; ++round) {
    std::vector<size_t> pieces(400);
    for (size_t& piece : pieces) piece = 1 + random() % (1 << random() % 17);
    EXPECT_TRUE(ReadPieces(stream, pieces).replies == expected) << round;
  }
}

TEST(RespProtocolTest, OtherBytesAreRefusedAsSoonAsTheyCome) {
  for (const std::string_view bytes : {"H",
                                       "HTTP/1.1 400 Bad Request\r\n",
                                       "\r\n",
                                       "\n",
                                       "x\r\n",
                                       ":\r\n",
                                       ":1x\r\n",
                                       ":+-1\r\n",
                                       ":9223372036854775808\r\n",
                                       "$x\r\n",
                                       "$-2\r\n",
                                       "$\r\n",
                                       "$1.5\r\n",
                                       "$3\r\nabcd\r\n",
                                       "$3\r\nabc\n\n",
                                       "*x\r\n",
                                       "*-2\r\n",
                                       "%-1\r\n",
                                       "~-1\r\n",
                                       "#x\r\n",
                                       "_1\r\n",
                                       "=-2\r\n",
                                       "=3\r\nabc\r\n",
                                       "=4\r\nabcd\r\n",
                                       "$?\r\n",
                                       "*?\r\n",
                                       ";1\r\n",
                                       ".\r\n",
                                       "*1\r\n>1\r\n+a\r\n",
                                       "|1\r\n|1\r\n",
                                       "*1\r\n|1\r\n+a\r\n>0\r\n",
                                       ":0x1\r\n",
                                       ": 1\r\n",
                                       "$ 1\r\n",
                                       "*2\r\n:1\r\n\r\n"}) {
    const Read read = ReadPieces(bytes, {1});
    ASSERT_TRUE(read.error) << bytes;
    EXPECT_EQ(read.error->code, ErrorCode::kDataLoss);
    EXPECT_TRUE(read.replies.empty());
  }
}

TEST(RespProtocolTest, AnnouncedSizesAboveTheLimitAreRefused) {
  for (const std::string_view bytes :
       {"$1048577\r\n", "$99999999999\r\n", "$9223372036854775807\r\n", "*1000000000\r\n",
        "%9223372036854775807\r\n", "|9223372036854775807\r\n", ">1000000000\r\n",
        "!99999999999\r\n", "*2\r\n$1048570\r\n", "*100000\r\n"}) {
    const Read read = ReadPieces(bytes, {100});
    ASSERT_TRUE(read.error) << bytes;
    EXPECT_EQ(read.error->code, ErrorCode::kDataLoss);
    EXPECT_NE(read.error->detail.find("1048576"), std::string::npos) << read.error->detail;
  }
  // Each reply has the whole limit, and a push in between takes nothing of it.
  std::string stream;
  for (int index = 0; index < 3; ++index) {
    stream += "$1048576\r\n" + std::string(kLimit, 'x') + "\r\n>1\r\n$1000000\r\n" +
              std::string(1'000'000, 'y') + "\r\n";
  }
  const Read read = ReadPieces(stream, {60'000});
  EXPECT_FALSE(read.error);
  EXPECT_EQ(read.replies.size(), 3);
}

TEST(RespProtocolTest, DeepAndLongFormsAreRefused) {
  std::string deep;
  for (int level = 0; level < 16; ++level) deep += "*1\r\n";
  EXPECT_FALSE(ReadPieces(deep + ":1\r\n", {5}).error);
  EXPECT_TRUE(ReadPieces(deep + "*1\r\n", {5}).error);
  std::string attributes;
  for (int level = 0; level < 100'000; ++level) attributes += "|0\r\n";
  EXPECT_EQ(ReadPieces(attributes + ":1\r\n", {4096}).replies.size(), 1);
  EXPECT_FALSE(ReadPieces("+" + std::string(16'000, 'x'), {1000}).error);
  EXPECT_TRUE(ReadPieces("+" + std::string(17'000, 'x'), {1000}).error);
}

#ifndef KVGATE_SANITIZED
size_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  size_t all = 0;
  size_t resident = 0;
  file >> all >> resident;
  return resident * 4096;
}

TEST(RespProtocolTest, AnAnnouncedSizeTakesNoMemoryBeforeItsBytesCome) {
  const size_t before = ResidentBytes();
  std::vector<std::unique_ptr<RespReader>> readers;
  for (int index = 0; index < 20; ++index) {
    RespReader& reader = *readers.emplace_back(std::make_unique<RespReader>(size_t{128} << 20));
    const std::string_view begin = index % 2 == 0 ? "$100000000\r\nabc" : "*1800000\r\n:1\r\n";
    std::memcpy(reader.Space().data(), begin.data(), begin.size());
    reader.Add(begin.size());
    RespReply reply;
    ASSERT_FALSE(*reader.Next(reply));
    EXPECT_FALSE(reader.Space().empty());
  }
  EXPECT_LT(ResidentBytes(), before + (20 << 20));
}
#endif

std::string Sent(std::span<const RespCommand> commands) {
  const RespRequest request(commands);
  std::string bytes;
  for (const std::string_view piece : request.pieces()) {
    EXPECT_FALSE(piece.empty());
    bytes += piece;
  }
  return bytes;
}

TEST(RespProtocolTest, CommandsAreArraysOfTexts) {
  const RespCommand commands[] = {{.words = {"SET", "k", ""}}, {.words = {"GET", "\r\n"}}};
  EXPECT_EQ(Sent(commands),
            "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n*2\r\n$3\r\nGET\r\n$2\r\n\r\n\r\n");
  EXPECT_EQ(RespRequest(commands).pieces().size(), 1);
}

TEST(RespProtocolTest, LongWordsAreSentFromWhereTheyLie) {
  const std::string value(1 << 20, 'v');
  const RespCommand commands[] = {{.words = {value, value}}, {.words = {"SET", "k", value}}};
  const RespRequest request(commands);
  EXPECT_EQ(std::ranges::count(request.pieces(), value.data(), &std::string_view::data), 3);
  std::string expected = "*2\r\n";
  for (const RespCommand& command : commands) {
    if (&command != &commands[0]) expected += "*3\r\n";
    for (const std::string_view word : command.words) {
      expected += "$" + std::to_string(word.size()) + "\r\n";
      expected.append(word).append("\r\n");
    }
  }
  EXPECT_TRUE(Sent(commands) == expected);
}

}  // namespace
}  // namespace kvgate::store::remote
