// The Redis protocol, RESP2 and RESP3, as bytes: RespRequest writes commands, RespReader reads
// replies. Neither knows sockets. Source:
// https://redis.io/docs/latest/develop/reference/protocol-spec
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvgate::store::remote {

// A command with its arguments; all of it is borrowed for the call.
struct RespCommand {
  std::vector<std::string_view> words;
  // In a cluster, decides which node gets the command; empty means any.
  std::string_view key = {};
};

// A double, a big number and a verbatim text of RESP3 are texts; a boolean is 0 or 1; a set is an
// array.
struct RespReply {
  enum class Kind : uint8_t { kNull, kText, kInteger, kError, kArray };
  Kind kind = Kind::kNull;
  std::string text = {};  // kText: the bytes; kError: the server's message
  int64_t integer = 0;
  std::vector<RespReply> items = {};  // kArray; a RESP3 map is its keys and values in turn
  friend bool operator==(const RespReply&, const RespReply&) = default;

  bool is_null() const { return kind == Kind::kNull; }
  bool is_text() const { return kind == Kind::kText; }
  bool is_integer() const { return kind == Kind::kInteger; }
  bool is_error() const { return kind == Kind::kError; }
  bool is_array() const { return kind == Kind::kArray; }
};

// Commands as they are sent. Long words are not copied, so the commands' words must outlive it.
class RespRequest {
 public:
  explicit RespRequest(std::span<const RespCommand> commands);
  RespRequest(const RespRequest&) = delete;
  RespRequest& operator=(const RespRequest&) = delete;

  // To be sent one after the other; none is empty.
  std::span<const std::string_view> pieces() const { return pieces_; }

 private:
  std::string short_bytes_;
  std::vector<std::string_view> pieces_;
};

// Reads replies from bytes that come in pieces of any size. The owner writes what it receives to
// Space, says how much that was, and takes replies until there are no more:
//   const std::span<char> space = reader.Space();
//   reader.Add(Receive(space));
//   while (true) { KVGATE_TRY(const bool is_whole, reader.Next(reply)); if (!is_whole) break; ... }
// The bytes of a long text are received where the reply will have them. Memory grows with the bytes
// that have come, never with a length that was only announced. Pushes and attributes of RESP3 are
// read and dropped.
class RespReader {
 public:
  // `reply_bytes_max` bounds the texts of one reply plus sizeof(RespReply) for each of its items.
  explicit RespReader(size_t reply_bytes_max);
  RespReader(const RespReader&) = delete;
  RespReader& operator=(const RespReader&) = delete;

  // Never empty. It is invalid after Add.
  std::span<char> Space();
  // REQUIRES: at most the size of the last Space.
  void Add(size_t size);
  // Returns true if a whole reply has come, which is then `reply`'s; false if more bytes are
  // needed. Fails with kDataLoss if the bytes are not the protocol or the reply is too large, and
  // the reader is of no use any more.
  Result<bool> Next(RespReply& reply);
  // True if no byte has come of the reply that Next would give.
  bool is_between_replies() const;

 private:
  // An array, a map's items or dropped items that are being read.
  struct Frame {
    RespReply* list = nullptr;  // its owner does not grow meanwhile
    size_t num_left = 0;
    bool is_attribute = false;  // it precedes an item and is none itself
  };
  static constexpr size_t kBufferBytes = 16 << 10;
  static constexpr size_t kFramesMax = 16;

  // Returns the line's text, without its end, or an empty one with `found` false.
  Result<bool> TakeLine(std::string_view& line);
  Result<void> ReadItem(std::string_view line);
  Result<void> BeginText(RespReply& reply, std::string_view count);
  Result<void> BeginList(char type, std::string_view count);
  Result<void> ReadLineItem(RespReply& reply, char type, std::string_view text);
  // Returns true if the text that is being read is whole.
  Result<bool> FillText();
  Result<void> EndText();
  // Closes every list that the item has completed.
  void EndItem();
  Result<void> Spend(size_t count, size_t bytes_each, std::string_view what);
  RespReply& MakeItem();

  const size_t reply_bytes_max_;
  size_t bytes_left_;  // of reply_bytes_max_, for the reply that is being read
  // Received bytes that are not read yet: buffer_[begin_, end_), of which none before scanned_ ends
  // a line.
  std::vector<char> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  size_t scanned_ = 0;

  RespReply root_;
  bool is_push_ = false;   // root_ is one, and is dropped
  bool is_whole_ = false;  // root_ is complete
  RespReply attribute_;
  std::vector<Frame> frames_;

  // The text that is being read and the line end behind it, while text_ is not null.
  RespReply* text_ = nullptr;
  size_t text_bytes_ = 0;  // with the line end
  size_t text_filled_ = 0;
  bool is_verbatim_ = false;  // begins with its format: "txt:"
  bool is_direct_ = false;    // the last Space was the text's own memory
};

}  // namespace kvgate::store::remote
