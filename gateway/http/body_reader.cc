#include "gateway/http/body_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/beast/http/read.hpp>
#include <utility>

#include "gateway/proxy/work/body_pool.h"
#include "gateway/upstream/body_scan.h"

namespace kvgate::http {

using proxy::work::BodyBudget;
using socket::kAwait;
using socket::Task;

namespace {

namespace asio = boost::asio;
namespace bhttp = boost::beast::http;

// A refused body of at most this size is read to its end, so that the connection can be kept.
constexpr uint64_t kSkippedBodyBytes = 64 * 1024;

// However short a body is, it may take this many times body_timeout.
constexpr int kSlowBodyTimeouts = 10;

// A body up to this size gets its memory at once. A larger one gets it when this much has arrived,
// so that an announced length alone takes no memory and the bytes are moved only once.
constexpr size_t kBodyReservedBytes = size_t{4} << 20;
constexpr size_t kBodyPieceBytes = 256 * 1024;

}  // namespace

bool IsSkipped(const BodyReader::Parser& parser) {
  const auto length = parser.content_length();
  const bool has_body = parser.chunked() || (length && *length > 0);
  const bool is_small = !has_body || (length && *length <= kSkippedBodyBytes);
  return is_small && parser.get()[bhttp::field::expect].empty();
}

void BodyReader::BeginRequest(Parser& parser) {
  parser_ = &parser;
  pieces_.reset();
  is_complete_ = parser.is_done();
}

Task<BodyReader::Outcome> BodyReader::ReadWhole(std::string& body, BodyBudget::Lease& lease) {
  const auto length = parser_->content_length();
  const bool is_sized = length && !parser_->is_done();
  return is_sized ? ReadSized(static_cast<size_t>(*length), body, lease) : ReadRest(body, lease);
}

Task<BodyReader::Outcome> BodyReader::ReadRest(std::string& body, BodyBudget::Lease& lease) {
  Outcome outcome;
  // The parser adds trailers to the headers, although they have not been checked and may come from
  // another sender than the head (RFC 9110, 6.5.1). Nobody sees them: the head was taken before.
  parser_->eager(true);
  const Clock::time_point began = Clock::now();
  while (!parser_->is_done()) {
    const size_t received = parser_->get().body().size();
    if (Result<void> fits = lease.GrowTo(received + kBodyPieceBytes); !fits) {
      parser_->get().body() = std::string();
      lease.Reset();
      outcome.no_room = std::move(fits).error();
      co_return outcome;
    }
    Expire(began, received);
    auto [code, size] = co_await bhttp::async_read_some(stream_, buffer_, *parser_, kAwait);
    if (code) {
      outcome.unreadable = code;
      co_return outcome;
    }
  }
  stream_.ExpireNever();
  body = std::move(parser_->get().body());
  lease.ShrinkTo(body.size());
  is_complete_ = true;
  co_return outcome;
}

// Reads straight into the body, because the parser would copy every byte once more.
Task<BodyReader::Outcome> BodyReader::ReadSized(size_t size, std::string& body,
                                                BodyBudget::Lease& lease) {
  Outcome outcome;
  const auto refuse = [&](Error error) {
    body = std::string();
    lease.Reset();
    outcome.no_room = std::move(error);
  };
  body = proxy::work::TakeBody();
  body.resize(std::min(body.size(), size));  // the rest is of an earlier body, and is overwritten
  if (size <= kBodyReservedBytes) body.reserve(size + upstream::kScanPadding);
  const size_t here = std::min(size, buffer_.size());
  if (Result<void> fits = lease.GrowTo(here); !fits) {
    refuse(std::move(fits).error());
    co_return outcome;
  }
  body.replace(0, here, static_cast<const char*>(buffer_.data().data()), here);
  buffer_.consume(here);
  size_t filled = here;
  size_t end = here;  // of the part that may be filled
  const Clock::time_point began = Clock::now();
  while (filled < size) {
    // Memory is touched as bytes arrive, not as they are announced.
    if (filled == end) {
      end = filled + std::min(size - filled, kBodyPieceBytes);
      if (Result<void> fits = lease.GrowTo(end); !fits) {
        refuse(std::move(fits).error());
        co_return outcome;
      }
      if (filled >= kBodyReservedBytes) body.reserve(size + upstream::kScanPadding);
      if (body.size() < end) body.resize(end);
    }
    Expire(began, filled);
    auto [code, count] =
        co_await stream_.async_read_some(asio::buffer(body.data() + filled, end - filled), kAwait);
    if (code) {
      body.resize(filled);
      outcome.is_gone = true;
      co_return outcome;
    }
    filled += count;
  }
  stream_.ExpireNever();
  is_complete_ = true;
  co_return outcome;
}

void BodyReader::Expire(Clock::time_point began, size_t received) {
  Clock::time_point deadline = Clock::now() + options_.body_timeout;
  if (options_.body_bytes_per_second_min > 0) {
    const auto allowed =
        std::chrono::milliseconds(received * 1000 / options_.body_bytes_per_second_min);
    deadline = std::min(deadline, began + kSlowBodyTimeouts * options_.body_timeout + allowed);
  }
  stream_.ExpireAt(deadline);
}

Task<Result<size_t>> BodyReader::Read(std::span<char> piece) {
  if (!pieces_) pieces_.emplace(std::move(*parser_));
  size_t filled = 0;
  while (filled < piece.size() && !pieces_->is_done()) {
    auto& buffer = pieces_->get().body();
    buffer.data = piece.data() + filled;
    buffer.size = piece.size() - filled;
    stream_.ExpireAfter(options_.body_timeout);
    auto [code, size] = co_await bhttp::async_read_some(stream_, buffer_, *pieces_, kAwait);
    filled = piece.size() - pieces_->get().body().size;
    if (code == bhttp::error::need_buffer) break;
    if (code == bhttp::error::body_limit) {
      co_return MakeError(ErrorCode::kTooLarge, "http",
                          fmt::format("The prefix file is larger than the limit of {} bytes.",
                                      options_.import_bytes_max));
    }
    if (code) co_return MakeError(ErrorCode::kCancelled, "http", "The client left.");
  }
  is_complete_ = pieces_->is_done();
  if (is_complete_) stream_.ExpireNever();
  co_return filled;
}

Task<void> BodyReader::Skip() {
  if (pieces_ || !IsSkipped(*parser_)) co_return;
  std::string dropped;
  BodyBudget::Lease lease;
  co_await ReadWhole(dropped, lease);
}

}  // namespace kvgate::http
