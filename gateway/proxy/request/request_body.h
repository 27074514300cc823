// RequestBody: the body of one request, its memory, and what a glance at it says.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "gateway/proxy/work/body_budget.h"
#include "gateway/proxy/work/work_runner.h"
#include "gateway/upstream/body_scan.h"

namespace kvgate::proxy::request {

// Gives the body of a request that is too large to be held, piece by piece.
class BodySource {
 public:
  virtual ~BodySource() = default;
  // Fills `piece`, but for the last of the body; returns how much that is, 0 at the end. Fails with
  // kTooLarge for more than the limit, and with kCancelled if the client is gone.
  virtual work::Task<Result<size_t>> Read(std::span<char> piece) = 0;
  // Reads and drops a body that is small, so that the connection can be kept.
  virtual work::Task<void> Skip() = 0;
};

class RequestBody {
 public:
  struct Args {
    work::BodyBudget& budget;
    std::string_view tenant;
    std::string_view encoding;  // of the content; empty: none
    bool is_ambiguous = false;  // several encodings were said, whose order matters
    size_t decoded_bytes_max = 0;
  };
  explicit RequestBody(const Args& args);
  ~RequestBody() { Release(); }
  RequestBody(const RequestBody&) = delete;
  RequestBody& operator=(const RequestBody&) = delete;

  // The bytes as received; the transport fills them in.
  std::string& bytes() { return bytes_; }
  // The memory of the body and of all that is made from it.
  work::BodyBudget::Lease& lease() { return lease_; }
  // The transport's source of a body that is taken in pieces; else null.
  BodySource*& source() { return source_; }

  // The body without its content-encoding, where it was decoded; else as received.
  std::string& text() { return decoded_ ? *decoded_ : bytes_; }
  bool is_encoded() const { return is_encoded_; }
  bool is_decoded() const { return decoded_.has_value(); }
  // Makes the decoded body the body.
  void TakeDecoded();
  // Makes these bytes the body, which is not encoded and has not been read. Fails with kOverloaded
  // if there is no memory for them.
  Result<void> Replace(std::string bytes);
  // Returns the body's memory to the pool; called once nobody needs the body any more.
  void Release();

  // Reads the model and other fields; the body is decoded for that on a worker if it came encoded.
  // The second call returns at once.
  work::Task<Result<void>> Scan(work::WorkRunner& runner);
  bool is_scanned() const { return is_scanned_; }
  // What else has read the body found this. Scan then returns at once.
  void TakeScan(upstream::BodyScan scan) {
    scan_ = std::move(scan);
    is_scanned_ = true;
  }
  const upstream::BodyScan& scan() const { return scan_; }
  // True if there is a body and it cannot be read, as far as is known.
  bool is_unreadable() const { return !bytes_.empty() && !scan_.readable; }

 private:
  const Args args_;
  std::string bytes_;
  work::BodyBudget::Lease lease_;
  BodySource* source_ = nullptr;
  bool is_encoded_;
  std::optional<std::string> decoded_;
  bool is_scanned_ = false;
  upstream::BodyScan scan_;
};

}  // namespace kvgate::proxy::request
