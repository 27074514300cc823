#include "gateway/dashboard/assets.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <set>
#include <string>

#include "gateway/dashboard/bundle.h"

namespace kvgate::dashboard {
namespace {

std::string HeaderOf(const Answer& answer, std::string_view name) {
  for (const auto& [key, value] : answer.headers) {
    if (key == name) return value;
  }
  return "";
}

std::string Gunzip(std::string_view packed) {
  z_stream stream = {};
  EXPECT_EQ(inflateInit2(&stream, 16 + MAX_WBITS), Z_OK);
  std::string plain(1 << 20, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(plain.data());
  stream.avail_out = static_cast<uInt>(plain.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  plain.resize(stream.total_out);
  inflateEnd(&stream);
  return plain;
}

TEST(AssetsTest, TheWholeBundleHasAtMost150KibCompressed) {
  size_t bytes = 0;
  for (const BundledFile& file : Bundle()) bytes += file.gzip.size();
  EXPECT_GT(bytes, 10'000u);
  EXPECT_LE(bytes, 150u << 10);
  EXPECT_LE(Bundle().size(), 8u) << "few files, because each is a round trip";
}

TEST(AssetsTest, EachFileComesPlainOrCompressedWithTheSameContents) {
  for (const BundledFile& file : Bundle()) {
    const std::string_view name = file.name == "index.html" ? "" : file.name;
    const Answer plain = AnswerAsset({.file = name});
    const Answer packed = AnswerAsset({.file = name, .accept_encoding = "br, gzip"});
    ASSERT_EQ(plain.status, 200) << file.name;
    ASSERT_EQ(packed.status, 200) << file.name;
    EXPECT_EQ(HeaderOf(plain, "content-encoding"), "");
    EXPECT_EQ(HeaderOf(packed, "content-encoding"), "gzip");
    EXPECT_EQ(HeaderOf(packed, "vary"), "accept-encoding");
    EXPECT_EQ(Gunzip(packed.body), plain.body) << file.name;
    EXPECT_EQ(plain.content_type, packed.content_type);
    EXPECT_NE(plain.content_type, "application/octet-stream") << file.name;
    EXPECT_NE(HeaderOf(plain, "etag"), HeaderOf(packed, "etag"));
  }
}

TEST(AssetsTest, AFileThatTheBrowserHasIsNotSentAgain) {
  for (const char* coding : {"", "gzip"}) {
    const Answer first = AnswerAsset({.file = "dashboard.js", .accept_encoding = coding});
    const std::string tag = HeaderOf(first, "etag");
    ASSERT_TRUE(tag.starts_with('"') && tag.ends_with('"')) << tag;
    for (const std::string& held :
         {tag, "W/" + tag, "\"a\", " + tag + ",\"b\"", std::string("*")}) {
      const Answer again =
          AnswerAsset({.file = "dashboard.js", .accept_encoding = coding, .if_none_match = held});
      EXPECT_EQ(again.status, 304) << held;
      EXPECT_EQ(again.body, "");
      EXPECT_EQ(HeaderOf(again, "etag"), tag);
      EXPECT_EQ(HeaderOf(again, "content-encoding"), "");
    }
    for (const std::string& held : {std::string("\"another\""), tag.substr(1), std::string()}) {
      EXPECT_EQ(
          AnswerAsset({.file = "dashboard.js", .accept_encoding = coding, .if_none_match = held})
              .status,
          200)
          << held;
    }
  }
  std::set<std::string> tags;
  for (const BundledFile& file : Bundle()) {
    if (file.name != "index.html") tags.insert(HeaderOf(AnswerAsset({.file = file.name}), "etag"));
  }
  EXPECT_EQ(tags.size(), Bundle().size() - 1);
}

TEST(AssetsTest, NoScriptStyleOrConnectionComesFromElsewhere) {
  for (const std::string_view held : {std::string_view(), std::string_view("*")}) {
    const Answer page = AnswerAsset({.file = "", .if_none_match = held});
    EXPECT_EQ(HeaderOf(page, "content-security-policy"),
              "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
              "img-src 'self' data:; font-src 'self'; base-uri 'none'; form-action 'none'; "
              "frame-ancestors 'none'");
    EXPECT_EQ(HeaderOf(page, "x-content-type-options"), "nosniff");
    EXPECT_EQ(HeaderOf(page, "referrer-policy"), "no-referrer");
    EXPECT_EQ(HeaderOf(page, "cache-control"), "no-cache");
  }
  const std::string html = AnswerAsset({.file = ""}).body;
  EXPECT_EQ(html.find("<style"), std::string::npos);
  EXPECT_EQ(html.find(" style="), std::string::npos);
  EXPECT_EQ(html.find("://"), std::string::npos);
  EXPECT_EQ(html.find("onload"), std::string::npos);
}

TEST(AssetsTest, OtherNamesAreNotThere) {
  for (const char* name : {"index.html", "dashboard.js.gz", "../bundle/dashboard.js", "a", "/",
                           "dashboard.js ", "DASHBOARD.JS"}) {
    EXPECT_EQ(AnswerAsset({.file = name}).status, 404) << name;
  }
}

TEST(AssetsTest, GzipIsTakenOnlyWhereItIsAskedFor) {
  for (const char* taken : {"gzip", "gzip, deflate, br", "br;q=1.0, gzip;q=0.5", "GZIP", "x-gzip",
                            "*", "br , gzip ;q=0.001", "identity;q=0, *", "gzip;q="}) {
    EXPECT_TRUE(TakesGzip(taken)) << taken;
  }
  for (const char* refused : {"", "identity", "br", "gzip;q=0", "gzip;q=0.000", "gzip ; q = 0",
                              "*;q=0", "gzip;q=0, *", "gzippy", ",", ";"}) {
    EXPECT_FALSE(TakesGzip(refused)) << refused;
  }
}

}  // namespace
}  // namespace kvgate::dashboard
