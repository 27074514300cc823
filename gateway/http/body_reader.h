// BodyReader: reads the body of one request from a client's stream, whole or piece by piece, within
// the limits of time and memory.
#pragma once

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "gateway/http/server.h"
#include "gateway/http/socket/client_stream.h"
#include "gateway/http/socket/task.h"
#include "gateway/proxy/request/request_context.h"
#include "gateway/proxy/work/body_budget.h"

namespace kvgate::http {

class BodyReader final : public proxy::request::BodySource {
 public:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  // All of them outlive it.
  BodyReader(socket::ClientStream& stream, boost::beast::flat_buffer& buffer,
             const ServerOptions& options)
      : stream_(stream), buffer_(buffer), options_(options) {}

  // Begins with a request whose head `parser` has read. It must outlive the request.
  void BeginRequest(Parser& parser);
  // True if no byte of the body is left on the wire.
  bool is_complete() const { return is_complete_; }

  // The outcome of reading a whole body.
  struct Outcome {
    std::optional<Error> no_room = {};          // it does not fit into the memory for bodies
    boost::system::error_code unreadable = {};  // the client is gone, or sent no HTTP
    bool is_gone = false;                       // the client is gone
    bool is_complete() const { return !no_room && !unreadable && !is_gone; }
  };
  // Reads into `body`, whose memory `lease` takes.
  socket::Task<Outcome> ReadWhole(std::string& body, proxy::work::BodyBudget::Lease& lease);

  socket::Task<Result<size_t>> Read(std::span<char> piece) override;
  socket::Task<void> Skip() override;

 private:
  using Clock = std::chrono::steady_clock;
  socket::Task<Outcome> ReadSized(size_t size, std::string& body,
                                  proxy::work::BodyBudget::Lease& lease);
  // Of a body that has come already, or whose length is not known.
  socket::Task<Outcome> ReadRest(std::string& body, proxy::work::BodyBudget::Lease& lease);
  // Bounds the whole body, because a client that sends a byte now and then would hold its
  // connection for ever.
  void Expire(Clock::time_point began, size_t received);

  socket::ClientStream& stream_;
  boost::beast::flat_buffer& buffer_;
  const ServerOptions& options_;
  Parser* parser_ = nullptr;
  // Reads a body in pieces; it has taken the head over from the parser.
  std::optional<boost::beast::http::request_parser<boost::beast::http::buffer_body>> pieces_;
  bool is_complete_ = true;
};

// True for a body that is read to its end although its request is refused, so that the connection
// can be kept.
bool IsSkipped(const BodyReader::Parser& parser);

}  // namespace kvgate::http
