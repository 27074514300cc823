#include "gateway/upstream/wire/content_decoder.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/gateway/upstream/encoders.h"

namespace kvgate::upstream::wire {
namespace {

using State = ContentDecoder::State;

constexpr const char* kCodings[] = {"gzip", "deflate", "bare deflate", "zstd", "br"};

// Returns the coding's name in a header.
std::string_view Named(std::string_view coding) {
  return coding == "bare deflate" ? "deflate" : coding;
}

struct Text : ContentDecoder::Sink {
  void OnDecoded(std::string_view piece) override {
    EXPECT_FALSE(piece.empty());
    EXPECT_LE(piece.size(), 16u * 1024);
    text.append(piece);
  }
  std::string text;
};

std::string Sample(size_t bytes) {
  std::mt19937 random(5);
  std::string text;
  while (text.size() < bytes) {
    text += "data: {\"token\":" + std::to_string(random() % 100'000) + "}\n\n";
  }
  text.resize(bytes);
  return text;
}

TEST(ContentDecoderTest, EachCodingIsReadInPiecesOfAnySize) {
  for (const char* coding : kCodings) {
    for (const size_t bytes : {size_t{1}, size_t{300}, size_t{16} * 1024, size_t{200'000}}) {
      const std::string text = Sample(bytes);
      const std::string encoded = Encode(coding, text);
      for (const size_t step : {size_t{1}, size_t{7}, size_t{1000}, encoded.size()}) {
        const auto decoder = ContentDecoder::For(Named(coding));
        ASSERT_NE(decoder, nullptr);
        Text sink;
        for (size_t at = 0; at < encoded.size(); at += step) {
          EXPECT_NE(decoder->state(), State::kWhole) << coding;
          decoder->Feed(std::string_view(encoded).substr(at, step), sink);
        }
        EXPECT_EQ(decoder->state(), State::kWhole) << coding << " " << bytes << " " << step;
        EXPECT_EQ(sink.text, text) << coding << " " << bytes << " " << step;
      }
    }
  }
}

TEST(ContentDecoderTest, EverySplitInTwoReadsTheSame) {
  const std::string text = Sample(500);
  for (const char* coding : kCodings) {
    const std::string encoded = Encode(coding, text);
    for (size_t at = 0; at <= encoded.size(); ++at) {
      const auto decoder = ContentDecoder::For(Named(coding));
      Text sink;
      decoder->Feed(std::string_view(encoded).substr(0, at), sink);
      decoder->Feed(std::string_view(encoded).substr(at), sink);
      EXPECT_EQ(sink.text, text) << coding << " " << at;
      EXPECT_EQ(decoder->state(), State::kWhole) << coding << " " << at;
    }
  }
}

TEST(ContentDecoderTest, WhatIsCutIsNeverWhole) {
  const std::string text = Sample(500);
  for (const char* coding : kCodings) {
    const std::string encoded = Encode(coding, text);
    for (size_t at = 0; at < encoded.size(); ++at) {
      const auto decoder = ContentDecoder::For(Named(coding));
      Text sink;
      EXPECT_EQ(decoder->Feed(std::string_view(encoded).substr(0, at), sink), State::kOpen)
          << coding << " " << at;
      EXPECT_TRUE(text.starts_with(sink.text)) << coding << " " << at;
    }
  }
}

TEST(ContentDecoderTest, WhatIsFlushedIsReadAtOnce) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY);
  const auto decoder = ContentDecoder::For("gzip");
  Text sink;
  std::string expected;
  for (int event = 0; event < 20; ++event) {
    std::string text = "data: " + std::to_string(event) + "\n\n";
    expected += text;
    std::string out(200, '\0');
    stream.next_in = reinterpret_cast<Bytef*>(text.data());
    stream.avail_in = static_cast<uInt>(text.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = 200;
    deflate(&stream, Z_SYNC_FLUSH);
    decoder->Feed(std::string_view(out).substr(0, 200 - stream.avail_out), sink);
    EXPECT_EQ(sink.text, expected);
  }
  deflateEnd(&stream);
}

TEST(ContentDecoderTest, MembersBehindEachOtherAreOneBody) {
  for (const char* coding : {"gzip", "zstd"}) {
    const std::string encoded = Encode(coding, "one ") + Encode(coding, "two");
    const auto decoder = ContentDecoder::For(coding);
    Text sink;
    EXPECT_EQ(decoder->Feed(encoded, sink), State::kWhole) << coding;
    EXPECT_EQ(sink.text, "one two") << coding;
  }
}

TEST(ContentDecoderTest, BytesBehindTheEndBreakIt) {
  for (const char* coding : kCodings) {
    const auto decoder = ContentDecoder::For(Named(coding));
    Text sink;
    EXPECT_EQ(decoder->Feed(Encode(coding, "text") + "garbage bytes", sink), State::kBroken)
        << coding;
    EXPECT_EQ(decoder->Feed(Encode(coding, "text"), sink), State::kBroken) << coding;
  }
}

TEST(ContentDecoderTest, GarbageIsBrokenOrOpenAndNeverWhole) {
  std::mt19937 random(11);
  int num_broken = 0;
  for (int round = 0; round < 500; ++round) {
    for (const char* coding : {"gzip", "zstd", "br", "deflate"}) {
      std::string bytes = Encode(coding, Sample(300));
      // br and bare deflate have no checksum, so damage there may give another text.
      for (int change = 0; change < 3; ++change) {
        bytes[random() % bytes.size()] = static_cast<char>(random());
      }
      const auto decoder = ContentDecoder::For(coding);
      Text sink;
      const State state = decoder->Feed(bytes, sink);
      num_broken += state == State::kBroken ? 1 : 0;
      EXPECT_LE(sink.text.size(), (1u << 20) + 100 * bytes.size());
    }
    std::string noise(200, '\0');
    for (char& byte : noise) byte = static_cast<char>(random());
    noise[0] = 'x';
    for (const char* coding : {"gzip", "zstd"}) {
      Text sink;
      EXPECT_EQ(ContentDecoder::For(coding)->Feed(noise, sink), State::kBroken);
    }
  }
  EXPECT_GT(num_broken, 1000);
}

TEST(ContentDecoderTest, ABombIsGivenUpAtItsBound) {
  const std::string zeros(size_t{64} << 20, '0');
  for (const char* coding : {"gzip", "deflate", "zstd", "br"}) {
    const std::string bomb = Encode(coding, zeros);
    ASSERT_LT(bomb.size(), 128u * 1024) << coding;
    for (const size_t step : {bomb.size(), size_t{100}}) {
      const auto decoder = ContentDecoder::For(coding);
      Text sink;
      for (size_t at = 0; at < bomb.size(); at += step) {
        decoder->Feed(std::string_view(bomb).substr(at, step), sink);
      }
      EXPECT_EQ(decoder->state(), State::kTooLarge) << coding;
      EXPECT_LE(sink.text.size(), (size_t{1} << 20) + 100 * bomb.size()) << coding;
    }
  }
}

TEST(ContentDecoderTest, AWindowBeyondTheBoundOfHttpIsRefused) {
  const auto context =
      std::unique_ptr<ZSTD_CCtx, size_t (*)(ZSTD_CCtx*)>(ZSTD_createCCtx(), ZSTD_freeCCtx);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_windowLog, 27);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_contentSizeFlag, 0);
  std::string text = Sample(100'000);
  std::string out(ZSTD_compressBound(text.size()), '\0');
  ZSTD_inBuffer in{.src = text.data(), .size = text.size(), .pos = 0};
  ZSTD_outBuffer into{.dst = out.data(), .size = out.size(), .pos = 0};
  // Two steps are needed: in one, the encoder would see how little there is and take a smaller
  // window.
  ZSTD_compressStream2(context.get(), &into, &in, ZSTD_e_flush);
  ZSTD_compressStream2(context.get(), &into, &in, ZSTD_e_end);
  Text sink;
  EXPECT_EQ(ContentDecoder::For("zstd")->Feed({out.data(), into.pos}, sink), State::kBroken);
}

TEST(ContentDecoderTest, NamesAreReadWithoutCaseAndListsAreNotTaken) {
  for (const char* known : {"gzip", "GZip", "x-gzip", "deflate", "BR", "zstd", " gzip\t"}) {
    EXPECT_NE(ContentDecoder::For(known), nullptr) << known;
  }
  for (const char* unknown : {"", "identity", "gzip, gzip", "compress", "aes128gcm", "gz"}) {
    EXPECT_EQ(ContentDecoder::For(unknown), nullptr) << unknown;
  }
  for (const char* identity : {"", "identity", "Identity "}) EXPECT_TRUE(IsIdentity(identity));
  for (const char* encoded : {"gzip", "identity, gzip", "x"}) EXPECT_FALSE(IsIdentity(encoded));
}

}  // namespace
}  // namespace kvgate::upstream::wire
