#include "store/prefix_file.h"

#include <fmt/format.h>

#include <cstring>

#include <kvgate/digest.h>

#include "store/kv_format.h"

namespace kvgate::store {
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
constexpr size_t kClearBytes = 4 + sizeof(PrefixFileId);  // before the first frame's sealed body
// What has been read is cut from the front of the buffer in steps of this, not for every frame.
constexpr size_t kCutBytes = size_t{1} << 20;

std::span<const std::byte> AsBytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

template <typename T>
void Append(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

template <typename T>
T Load(std::string_view bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

// Seeded by the frame's number: one that is missing or moved does not fit either.
uint64_t Checksum(std::string_view behind, uint64_t number) {
  return Xxh3(AsBytes(behind), number).first;
}

// Kind, file and number: a frame opens nowhere else.
std::string FrameName(const PrefixFileId& file, uint64_t number, uint32_t kind) {
  std::string name;
  Append(name, file);
  Append(name, number);
  Append(name, kind);
  return name;
}

Error Damaged(std::string detail) {
  return MakeError(ErrorCode::kDataLoss, kSource, std::move(detail));
}

}  // namespace

PrefixFileWriter::PrefixFileWriter(const Keyring& ring) : ring_(ring) {
  // Random: nobody can choose it so that two files have the same.
  const std::string sealed = ring_.Seal({.purpose = "export id"}, "");
  std::memcpy(file_.data(), sealed.data() + sealed.size() - file_.size(), file_.size());
}

void PrefixFileWriter::Frame(uint32_t kind, std::string_view clear, std::string_view plain,
                             std::string& out) {
  const std::string name = FrameName(file_, num_frames_, kind);
  std::string body(clear);
  body += ring_.Seal({.purpose = kPurpose, .name = name}, plain);
  const size_t begin = out.size();
  Append(out, uint64_t{0});
  Append(out, kind);
  Append(out, uint32_t{0});
  Append(out, static_cast<uint64_t>(body.size()));
  out += body;
  const uint64_t checksum = Checksum(std::string_view(out).substr(begin + 8), num_frames_++);
  std::memcpy(out.data() + begin, &checksum, sizeof(checksum));
}

void PrefixFileWriter::Header(const PrefixFileHeader& header, std::string& out) {
  std::string clear;
  Append(clear, kPrefixFileVersion);
  Append(clear, file_);
  std::string body;
  Append(body, header.num_blocks);
  Append(body, header.fingerprint.low);
  Append(body, header.fingerprint.high);
  Append(body, static_cast<uint64_t>(header.tenant.size()));
  body += header.tenant;
  Frame(kHeaderKind, clear, body, out);
}

void PrefixFileWriter::Block(const KvBlock& block, std::string& out) {
  std::string body;
  body.reserve(kBlockHeadBytes + block.tokens.size() * sizeof(TokenId) + block.payload.size());
  Append(body, block.depth);
  Append(body, block.group);
  Append(body, block.shape_tag);
  Append(body, static_cast<uint32_t>(block.tokens.size()));
  Append(body, block.digest);
  const auto tokens = std::as_bytes(std::span(block.tokens));
  body.append(reinterpret_cast<const char*>(tokens.data()), tokens.size());
  body.append(reinterpret_cast<const char*>(block.payload.data()), block.payload.size());
  Frame(kBlockKind, "", body, out);
}

void PrefixFileWriter::End(const PrefixFileEnd& end, std::string& out) {
  std::string body;
  Append(body, end.num_blocks);
  Append(body, end.digest);
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
  const auto kind = Load<uint32_t>(bytes, 8);
  const auto body_bytes = Load<uint64_t>(bytes, 16);
  if (num_frames_ == 0 && kind != kHeaderKind) {
    return MakeError(ErrorCode::kUnsupported, kSource, "this is not an exported prefix");
  }
  if (body_bytes > kPrefixFrameBytesMax) {
    return Damaged(fmt::format("frame {} of {} bytes; the limit is {}", num_frames_, body_bytes,
                               kPrefixFrameBytesMax));
  }
  if (bytes.size() - kFrameHeadBytes < body_bytes) return std::optional<Frame>();
  const std::string_view frame = bytes.substr(0, kFrameHeadBytes + body_bytes);
  if (Load<uint64_t>(frame, 0) != Checksum(frame.substr(8), num_frames_)) {
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
  const auto version = Load<uint32_t>(body, 0);
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
  file_ = Load<PrefixFileId>(body, 4);
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
        Load<uint64_t>(body, 20) != body.size() - kHeaderHeadBytes) {
      return bad_size;
    }
    return Frame(PrefixFileHeader{
        .fingerprint = {.low = Load<uint64_t>(body, 4), .high = Load<uint64_t>(body, 12)},
        .tenant = std::string(body.substr(kHeaderHeadBytes)),
        .num_blocks = Load<uint32_t>(body, 0)});
  }
  if (kind == kEndKind) {
    if (body.size() != 4 + sizeof(PrefixDigest)) return bad_size;
    return Frame(PrefixFileEnd{.num_blocks = Load<uint32_t>(body, 0),
                               .digest = Load<PrefixDigest>(body, 4)});
  }
  if (kind != kBlockKind) return Damaged(fmt::format("frame {}: an unknown kind", num_frames_));
  if (body.size() < kBlockHeadBytes) return bad_size;
  const size_t token_bytes = Load<uint32_t>(body, 12) * sizeof(TokenId);
  if (token_bytes > body.size() - kBlockHeadBytes) return bad_size;
  const auto rest = AsBytes(body.substr(kBlockHeadBytes));
  KvBlock block;
  block.depth = Load<uint32_t>(body, 0);
  block.group = Load<uint32_t>(body, 4);
  block.shape_tag = Load<uint32_t>(body, 8);
  block.digest = Load<PrefixDigest>(body, 16);
  block.tokens = DecodeTokens(rest.first(token_bytes));
  block.payload.assign(rest.begin() + static_cast<std::ptrdiff_t>(token_bytes), rest.end());
  return Frame(std::move(block));
}

}  // namespace kvgate::store
