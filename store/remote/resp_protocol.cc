#include "store/remote/resp_protocol.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "base/check.h"

namespace kvgate::store::remote {
namespace {

constexpr std::string_view kLineEnd = "\r\n";
// A word of this size or more is sent from where it lies; copying it would cost more than one
// more piece.
constexpr size_t kBorrowedBytesMin = 4 << 10;
// What is left of a text is received into its own memory from this size on; of less, one receive
// shall also bring the replies behind it.
constexpr size_t kDirectBytesMin = 4 << 10;
// A text's memory is cleared in steps of this size, just before the bytes come, while it is in the
// processor's cache.
constexpr size_t kStepBytes = 256 << 10;
// A list's memory for this many items is allocated at once, for more as they come.
constexpr size_t kItemsReservedMax = 256;

Error NotTheProtocol(std::string why) {
  return MakeError(ErrorCode::kDataLoss, "store.remote",
                   fmt::format("a reply is not of the Redis protocol: {}", why));
}

void AppendCount(std::string& bytes, char type, size_t count) {
  fmt::format_to(std::back_inserter(bytes), "{}{}\r\n", type, count);
}

// Decimal digits, with a sign or without.
std::optional<int64_t> ReadInteger(std::string_view text) {
  if (text.size() > 1 && text.front() == '+' && text[1] != '-') text.remove_prefix(1);
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, value);
  if (text.empty() || code != std::errc() || stop != end) return std::nullopt;
  return value;
}

}  // namespace

RespRequest::RespRequest(std::span<const RespCommand> commands) {
  // Pieces of short_bytes_ are noted by their sizes while it grows.
  struct Piece {
    std::string_view borrowed;
    size_t size = 0;
  };
  std::vector<Piece> noted;
  size_t begun = 0;  // of the short bytes that no piece has yet
  const auto end_short = [&] {
    if (short_bytes_.size() > begun) noted.push_back({{}, short_bytes_.size() - begun});
    begun = short_bytes_.size();
  };
  for (const RespCommand& command : commands) {
    AppendCount(short_bytes_, '*', command.words.size());
    for (const std::string_view word : command.words) {
      AppendCount(short_bytes_, '$', word.size());
      if (word.size() < kBorrowedBytesMin) {
        short_bytes_ += word;
      } else {
        end_short();
        noted.push_back({word, word.size()});
      }
      short_bytes_ += kLineEnd;
    }
  }
  end_short();
  pieces_.reserve(noted.size());
  size_t at = 0;
  for (const Piece& piece : noted) {
    if (piece.borrowed.empty()) {
      pieces_.push_back(std::string_view(short_bytes_).substr(at, piece.size));
      at += piece.size;
    } else {
      pieces_.push_back(piece.borrowed);
    }
  }
}

RespReader::RespReader(size_t reply_bytes_max)
    : reply_bytes_max_(reply_bytes_max), bytes_left_(reply_bytes_max), buffer_(kBufferBytes) {}

std::span<char> RespReader::Space() {
  is_direct_ = text_ != nullptr && text_bytes_ - text_filled_ >= kDirectBytesMin;
  if (is_direct_) {
    std::string& text = text_->text;
    text.resize(std::min(text_bytes_, text_filled_ + kStepBytes));
    return std::span(text).subspan(text_filled_);
  }
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    scanned_ -= begin_;
    begin_ = 0;
  }
  return std::span(buffer_).subspan(end_);
}

void RespReader::Add(size_t size) {
  (is_direct_ ? text_filled_ : end_) += size;
  KVGATE_CHECK(end_ <= buffer_.size() && text_filled_ <= text_bytes_, "more than the space");
}

bool RespReader::is_between_replies() const {
  return begin_ == end_ && text_ == nullptr && frames_.empty();
}

Result<bool> RespReader::Next(RespReply& reply) {
  while (true) {
    if (text_ != nullptr) {
      KVGATE_TRY(const bool is_filled, FillText());
      if (!is_filled) return false;
      KVGATE_TRY_VOID(EndText());
    } else {
      std::string_view line;
      KVGATE_TRY(const bool found, TakeLine(line));
      if (!found) return false;
      KVGATE_TRY_VOID(ReadItem(line));
    }
    if (!is_whole_) continue;
    is_whole_ = false;
    bytes_left_ = reply_bytes_max_;
    RespReply whole = std::exchange(root_, {});
    if (std::exchange(is_push_, false)) continue;
    reply = std::move(whole);
    return true;
  }
}

Result<bool> RespReader::TakeLine(std::string_view& line) {
  const std::string_view bytes(buffer_.data() + begin_, end_ - begin_);
  const size_t end = bytes.find(kLineEnd, scanned_ - begin_);
  if (end == std::string_view::npos) {
    // What begins with a byte that no reply begins with needs no line end to be refused.
    if (!bytes.empty() && std::string_view("+-:$*_,#!=(%~>|").find(bytes.front()) == bytes.npos) {
      return NotTheProtocol(fmt::format("it begins with the byte 0x{:02x}",
                                        static_cast<unsigned char>(bytes.front())));
    }
    if (bytes.size() == buffer_.size()) {
      return NotTheProtocol(fmt::format("a line is longer than {} bytes", buffer_.size()));
    }
    scanned_ = bytes.empty() ? begin_ : end_ - 1;  // the first byte of a line end may have come
    return false;
  }
  line = bytes.substr(0, end);
  begin_ += end + kLineEnd.size();
  scanned_ = begin_;
  return true;
}

// The line is in the buffer, which changes only when more bytes are received.
Result<void> RespReader::ReadItem(std::string_view line) {
  if (line.empty()) return NotTheProtocol("a line is empty");
  const char type = line.front();
  const std::string_view text = line.substr(1);
  switch (type) {
    case '|':
    case '*':
    case '%':
    case '~':
    case '>':
      return BeginList(type, text);
    case '$':
    case '=':
    case '!': {
      RespReply& reply = MakeItem();
      reply.kind = type == '!' ? RespReply::Kind::kError : RespReply::Kind::kText;
      is_verbatim_ = type == '=';
      return BeginText(reply, text);
    }
    default:
      KVGATE_TRY_VOID(Spend(text.size(), 1, "bytes"));
      KVGATE_TRY_VOID(ReadLineItem(MakeItem(), type, text));
      EndItem();
      return {};
  }
}

// Items that are a line.
Result<void> RespReader::ReadLineItem(RespReply& reply, char type, std::string_view text) {
  switch (type) {
    case '-':
      reply.kind = RespReply::Kind::kError;
      reply.text = text;
      return {};
    case '+':
    case ',':
    case '(':
      reply.kind = RespReply::Kind::kText;
      reply.text = text;
      return {};
    case ':': {
      const std::optional<int64_t> value = ReadInteger(text);
      if (!value) return NotTheProtocol("an integer is no number of 64 bits");
      reply.kind = RespReply::Kind::kInteger;
      reply.integer = *value;
      return {};
    }
    case '#':
      if (text != "t" && text != "f") return NotTheProtocol("a boolean is neither t nor f");
      reply.kind = RespReply::Kind::kInteger;
      reply.integer = text == "t" ? 1 : 0;
      return {};
    case '_':
      if (!text.empty()) return NotTheProtocol("a null has a value");
      return {};
    default:
      return NotTheProtocol(
          fmt::format("an item begins with the byte 0x{:02x}", static_cast<unsigned char>(type)));
  }
}

Result<void> RespReader::BeginText(RespReply& reply, std::string_view count) {
  const std::optional<int64_t> size = ReadInteger(count);
  if (size == -1) {
    reply.kind = RespReply::Kind::kNull;
    EndItem();
    return {};
  }
  if (!size || *size < 0) return NotTheProtocol("the size of a text is no number");
  KVGATE_TRY_VOID(Spend(static_cast<size_t>(*size), 1, "bytes"));
  text_ = &reply;
  text_bytes_ = static_cast<size_t>(*size) + kLineEnd.size();
  text_filled_ = 0;
  // This reserves addresses; the system gives memory as bytes come.
  reply.text.reserve(text_bytes_);
  return {};
}

Result<void> RespReader::BeginList(char type, std::string_view count) {
  std::optional<int64_t> size = ReadInteger(count);
  if (size == -1 && type == '*') {
    MakeItem();
    EndItem();
    return {};
  }
  if (!size || *size < 0) return NotTheProtocol("the size of an array is no number");
  const bool is_map = type == '%' || type == '|';
  KVGATE_TRY_VOID(Spend(static_cast<size_t>(*size), sizeof(RespReply) * (is_map ? 2 : 1), "items"));
  const size_t num_items = static_cast<size_t>(*size) * (is_map ? 2 : 1);
  if (frames_.size() == kFramesMax) {
    return NotTheProtocol(fmt::format("arrays lie deeper than {} in each other", kFramesMax));
  }
  const bool is_attribute = type == '|';
  if (is_attribute && std::ranges::any_of(frames_, &Frame::is_attribute)) {
    return NotTheProtocol("an attribute has attributes");
  }
  if (type == '>') {
    if (!frames_.empty()) return NotTheProtocol("a push lies in a reply");
    is_push_ = true;
  }
  RespReply& reply = is_attribute ? attribute_ : MakeItem();
  reply.kind = RespReply::Kind::kArray;
  reply.items.reserve(std::min(num_items, kItemsReservedMax));
  frames_.push_back({.list = &reply, .num_left = num_items, .is_attribute = is_attribute});
  if (num_items == 0) {
    frames_.pop_back();
    if (!is_attribute) EndItem();
  }
  return {};
}

Result<bool> RespReader::FillText() {
  const size_t size = std::min(end_ - begin_, text_bytes_ - text_filled_);
  if (size > 0) {
    text_->text.resize(text_filled_);
    text_->text.append(buffer_.data() + begin_, size);
    text_filled_ += size;
    begin_ += size;
    scanned_ = begin_;
  }
  return text_filled_ == text_bytes_;
}

Result<void> RespReader::EndText() {
  std::string& text = std::exchange(text_, nullptr)->text;
  if (!text.ends_with(kLineEnd)) return NotTheProtocol("a text does not end where it should");
  text.resize(text.size() - kLineEnd.size());
  if (is_verbatim_) {
    if (text.size() < 4 || text[3] != ':') return NotTheProtocol("a verbatim text has no format");
    text.erase(0, 4);
  }
  EndItem();
  return {};
}

void RespReader::EndItem() {
  while (!frames_.empty()) {
    if (frames_.back().num_left > 0) return;
    const bool is_attribute = frames_.back().is_attribute;
    frames_.pop_back();
    if (is_attribute) {
      attribute_ = {};
      return;
    }
  }
  is_whole_ = true;
}

Result<void> RespReader::Spend(size_t count, size_t bytes_each, std::string_view what) {
  if (count > bytes_left_ / bytes_each) {
    return MakeError(ErrorCode::kDataLoss, "store.remote",
                     fmt::format("a reply has {} {} more where {} bytes are left of the limit of "
                                 "{} for one reply",
                                 count, what, bytes_left_, reply_bytes_max_));
  }
  bytes_left_ -= count * bytes_each;
  return {};
}

RespReply& RespReader::MakeItem() {
  if (frames_.empty()) return root_;
  Frame& frame = frames_.back();
  --frame.num_left;
  return frame.list->items.emplace_back();
}

}  // namespace kvgate::store::remote
