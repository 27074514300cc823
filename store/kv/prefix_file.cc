#include "store/kv/prefix_file.h"

#include <fmt/format.h>

#include <cstring>

#include "base/digest.h"
#include "store/file/byte_codec.h"
#include "store/kv/kv_format.h"

namespace kvgate::store::kv {

using file::AppendValue;
using file::LoadValue;

namespace {

constexpr std::string_view kSource = "store.prefix_file";
constexpr std::string_view kPurpose = "export";
constexpr uint32_t kHeaderKind = 0x4850564b;  // "KVPH"
constexpr uint32_t kBlockKind = 0x4250564b;   // "KVPB"
constexpr uint32_t kEndKind = 0x4550564b;     // "KVPE"
constexpr size_t kFrameHeadBytes = 24;
constexpr size_t kBlockHeadBytes = 48;
constexpr size_t kHeaderHeadBytes = 28;
constexpr size_t kTenantBytesMax = 4096;
constexpr size_t kClearBytes = 4 + sizeof(PrefixFileId);  // plain text before the first sealed body
// Consumed bytes are erased from the front of the buffer at this many bytes, not after every frame.
constexpr size_t kCutBytes = size_t{1} << 20;

// The frame's number is the seed, so that a missing or moved frame is detected too.
uint64_t Checksum(std::string_view behind, uint64_t number) {
  return Xxh3(file::AsBytes(behind), number).first;
}

// The name contains file, number and kind, so that a frame opens in no other place.
std::string FrameName(const PrefixFileId& file, uint64_t number, uint32_t kind) {
  std::string name;
  AppendValue(name, file);
  AppendValue(name, number);
  AppendValue(name, kind);
  return name;
}

Error Damaged(std::string detail) {
  return MakeError(ErrorCode::kDataLoss, kSource, std::move(detail));
}

}  // namespace

PrefixFileWriter::PrefixFileWriter(const Keyring& ring) : ring_(ring) {
  // The id is taken from random sealed bytes, so that nobody can choose it to equal another file's.
  const std::string sealed = ring_.Seal({.purpose = "export id"}, "");
  std::memcpy(file_.data(), sealed.data() + sealed.size() - file_.size(), file_.size());
}

void PrefixFileWriter::Frame(uint32_t kind, std::string_view clear, std::string_view plain,
                             std::string& out) {
  const std::string name = FrameName(file_, num_frames_, kind);
  std::string body(clear);
  body += ring_.Seal({.purpose = kPurpose, .name = name}, plain);
  const size_t begin = out.size();
  AppendValue(out, uint64_t{0});
  AppendValue(out, kind);
  AppendValue(out, uint32_t{0});
  AppendValue(out, static_cast<uint64_t>(body.size()));
  out += body;
  const uint64_t checksum = Checksum(std::string_view(out).substr(begin + 8), num_frames_++);
  std::memcpy(out.data() + begin, &checksum, sizeof(checksum));
}

void PrefixFileWriter::Header(const PrefixFileHeader& header, std::string& out) {
  std::string clear;
  AppendValue(clear, kPrefixFileVersion);
  AppendValue(clear, file_);
  std::string body;
  AppendValue(body, header.num_blocks);
  AppendValue(body, header.fingerprint.low);
  AppendValue(body, header.fingerprint.high);
  AppendValue(body, static_cast<uint64_t>(header.tenant.size()));
  body += header.tenant;
  Frame(kHeaderKind, clear, body, out);
}

void PrefixFileWriter::Block(const KvBlock& block, std::string& out) {
  std::string body;
  body.reserve(kBlockHeadBytes + block.tokens.size() * sizeof(TokenId) + block.payload.size());
  AppendValue(body, block.depth);
  AppendValue(body, block.group);
  AppendValue(body, block.shape_tag);
  AppendValue(body, static_cast<uint32_t>(block.tokens.size()));
  AppendValue(body, block.digest);
  const auto tokens = std::as_bytes(std::span(block.tokens));
  body.append(reinterpret_cast<const char*>(tokens.data()), tokens.size());
  body.append(reinterpret_cast<const char*>(block.payload.data()), block.payload.size());
  Frame(kBlockKind, "", body, out);
}

void PrefixFileWriter::End(const PrefixFileEnd& end, std::string& out) {
  std::string body;
  AppendValue(body, end.num_blocks);
  AppendValue(body, end.digest);
  Frame(kEndKind, "", body, out);
}

void PrefixFileReader::Feed(std::string_view bytes) {
  if (used_ >= kCutBytes) {
    pending_.erase(0, used_);
    used_ = 0;
  }
  pending_ += bytes;
}

Result<std::optional<PrefixFileReader::Frame>> PrefixFileReader::Next() {
  const std::string_view bytes = std::string_view(pending_).substr(used_);
  if (bytes.size() < kFrameHeadBytes) return std::optional<Frame>();
  const auto kind = LoadValue<uint32_t>(bytes, 8);
  const auto body_bytes = LoadValue<uint64_t>(bytes, 16);
  if (num_frames_ == 0 && kind != kHeaderKind) {
    return MakeError(ErrorCode::kUnsupported, kSource, "this is not an exported prefix");
  }
  if (body_bytes > kPrefixFrameBytesMax) {
    return Damaged(fmt::format("frame {} of {} bytes; the limit is {}", num_frames_, body_bytes,
                               kPrefixFrameBytesMax));
  }
  if (bytes.size() - kFrameHeadBytes < body_bytes) return std::optional<Frame>();
  const std::string_view frame = bytes.substr(0, kFrameHeadBytes + body_bytes);
  if (LoadValue<uint64_t>(frame, 0) != Checksum(frame.substr(8), num_frames_)) {
    return Damaged(fmt::format("frame {}: its checksum does not match", num_frames_));
  }
  std::string_view sealed = frame.substr(kFrameHeadBytes);
  if (num_frames_ == 0) {
    KVGATE_TRY(sealed, TakeClear(sealed));
  }
  KVGATE_TRY(const std::string body, OpenFrame(kind, sealed));
  KVGATE_TRY(Frame decoded, Decode(kind, body));
  ++num_frames_;
  used_ += frame.size();
  return std::optional<Frame>(std::move(decoded));
}

Result<std::string_view> PrefixFileReader::TakeClear(std::string_view body) {
  if (body.size() < 4) return Damaged("frame 0: its size is wrong");
  const auto version = LoadValue<uint32_t>(body, 0);
  if (version == 1) {
    return MakeError(
        ErrorCode::kUnsupported, kSource,
        "an exported prefix of format 1, which is not sealed, so that anybody may have "
        "written it: export the prefix again with this version");
  }
  if (version != kPrefixFileVersion) {
    return MakeError(ErrorCode::kUnsupported, kSource,
                     fmt::format("an exported prefix of format {}; this program reads {}", version,
                                 kPrefixFileVersion));
  }
  if (body.size() < kClearBytes) return Damaged("frame 0: its size is wrong");
  file_ = LoadValue<PrefixFileId>(body, 4);
  return body.substr(kClearBytes);
}

Result<std::string> PrefixFileReader::OpenFrame(uint32_t kind, std::string_view sealed) const {
  const std::string name = FrameName(file_, num_frames_, kind);
  Result<std::string> body = ring_.Open({.purpose = kPurpose, .name = name}, sealed);
  if (body) return body;
  if (body.error().code == ErrorCode::kPermissionDenied) {
    return MakeError(ErrorCode::kPermissionDenied, kSource,
                     fmt::format("this prefix was exported under another secret than those of {}: "
                                 "set the same store.secret_env on both sides and export it again",
                                 ring_.source()));
  }
  if (body.error().code == ErrorCode::kUnsupported) return std::move(body).error();
  return Damaged(fmt::format("frame {}: it was not sealed for this place", num_frames_));
}

Result<PrefixFileReader::Frame> PrefixFileReader::Decode(uint32_t kind,
                                                         std::string_view body) const {
  const Error bad_size = Damaged(fmt::format("frame {}: its size is wrong", num_frames_));
  if (kind == kHeaderKind) {
    if (body.size() < kHeaderHeadBytes || body.size() > kHeaderHeadBytes + kTenantBytesMax ||
        LoadValue<uint64_t>(body, 20) != body.size() - kHeaderHeadBytes) {
      return bad_size;
    }
    return Frame(PrefixFileHeader{
        .fingerprint = {.low = LoadValue<uint64_t>(body, 4), .high = LoadValue<uint64_t>(body, 12)},
        .tenant = std::string(body.substr(kHeaderHeadBytes)),
        .num_blocks = LoadValue<uint32_t>(body, 0)});
  }
  if (kind == kEndKind) {
    if (body.size() != 4 + sizeof(PrefixDigest)) return bad_size;
    return Frame(PrefixFileEnd{.num_blocks = LoadValue<uint32_t>(body, 0),
                               .digest = LoadValue<PrefixDigest>(body, 4)});
  }
  if (kind != kBlockKind) return Damaged(fmt::format("frame {}: an unknown kind", num_frames_));
  if (body.size() < kBlockHeadBytes) return bad_size;
  const size_t token_bytes = LoadValue<uint32_t>(body, 12) * sizeof(TokenId);
  if (token_bytes > body.size() - kBlockHeadBytes) return bad_size;
  const auto rest = file::AsBytes(body.substr(kBlockHeadBytes));
  KvBlock block;
  block.depth = LoadValue<uint32_t>(body, 0);
  block.group = LoadValue<uint32_t>(body, 4);
  block.shape_tag = LoadValue<uint32_t>(body, 8);
  block.digest = LoadValue<PrefixDigest>(body, 16);
  block.tokens = DecodeTokens(rest.first(token_bytes));
  block.payload.assign(rest.begin() + static_cast<std::ptrdiff_t>(token_bytes), rest.end());
  return Frame(std::move(block));
}

}  // namespace kvgate::store::kv
