// The prefix endpoints that last or are large: warm, export, import. Warm waits as a completion
// does; of a file that comes or goes one piece is in memory.
#include <fmt/format.h>

#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/read.hpp>
#include <utility>
#include <vector>

#include <kvgate/log.h>

#include "gateway/http/connection.h"

namespace kvgate::http {
namespace {

namespace bhttp = boost::beast::http;

constexpr size_t kPieceBytes = size_t{256} << 10;

Result<std::string> FinishImport(tier::PrefixImporter& importer, const Result<void>& fed) {
  if (!fed) return fed.error();
  KVGATE_TRY(const tier::ImportReport report, importer.Finish());
  return service::PrefixService::Describe(report);
}

}  // namespace

// The body of an import while it is read: into `piece`, never as a whole.
struct Connection::ImportBody {
  explicit ImportBody(Parser&& head) : parser(std::move(head)), piece(kPieceBytes) {}
  bhttp::request_parser<bhttp::buffer_body> parser;
  std::vector<char> piece;
  size_t filled = 0;
  Result<void> fed;
};

Task<bool> Connection::ServeWarm(RouteMatch match) {
  Result<std::unique_ptr<service::WarmJob>> job =
      MakeError(ErrorCode::kInternal, "http", "starting to warm failed");
  const std::string credential = Credential();
  const service::Service::WarmArgs args{
      .body = parser_->get().body(), .credential = credential, .wake = MakeWake()};
  std::function<void()> start = [&] { job = context_.service.StartWarm(args); };
  co_await RunOnWorker(std::move(start));
  while (job && !(*job)->Poll()) {
    // As for a whole answer: an interim response tells a client that has left.
    std::string probe = http_1_0_ ? "" : "HTTP/1.1 100 Continue\r\n\r\n";
    const bool there = co_await WaitForProgress(std::move(probe));
    if (there) continue;
    if (!cancelled_) context_.service.metrics().client_disconnects.Add();
    Count(match.name, cancelled_ ? 503 : 499);
    co_return false;
  }
  Result<std::string> body = MakeError(ErrorCode::kInternal, "http", "warming failed");
  if (job) {
    std::function<void()> finish = [&] { body = (*job)->Finish(); };
    co_await RunOnWorker(std::move(finish));
  } else {
    body = job.error();
  }
  Response response = body ? Response{.body = std::move(*body)} : ErrorResponse(body.error());
  const bool again = co_await Send(std::move(response), match.name, match.openai_dialect);
  co_return again;
}

Task<bool> Connection::ServeExport(RouteMatch match) {
  Result<std::unique_ptr<tier::PrefixExporter>> exporter =
      MakeError(ErrorCode::kInternal, "http", "starting the export failed");
  std::function<void()> start = [&] {
    exporter = context_.service.prefixes().StartExport(match.argument, Credential());
  };
  co_await RunOnWorker(std::move(start));
  if (!exporter) {
    Response response = ErrorResponse(exporter.error());
    const bool again = co_await Send(std::move(response), match.name, match.openai_dialect);
    co_return again;
  }
  if (http_1_0_) keep_alive_ = false;
  Count(match.name, 200);
  std::string pending = DownloadHead(Head(false), match.argument + ".kvgate");
  bool more = !head_only_;
  while (more) {
    Result<bool> next = MakeError(ErrorCode::kInternal, "http", "the export failed");
    std::string piece;
    std::function<void()> work = [&] { next = (*exporter)->Next(piece); };
    co_await RunOnWorker(std::move(work));
    if (!next) {
      // The head is out: a body without its end is how the client learns of it.
      KVGATE_LOG(kError, "http", "request {}: {}", request_id_, next.error().ToString());
      co_return false;
    }
    more = *next;
    pending += http_1_0_ ? piece : Chunk(piece);
    if (!more && !http_1_0_) pending += "0\r\n\r\n";
    std::string bytes = std::exchange(pending, {});
    const bool written = co_await Write(std::move(bytes));
    if (!written || cancelled_) co_return false;
  }
  if (!pending.empty()) {
    const bool written = co_await Write(std::move(pending));
    if (!written) co_return false;
  }
  co_return keep_alive_;
}

// The next piece of the body, at most kPieceBytes: fewer at its end. False: the client is gone, or
// what it sends is beyond the limit; then `fed` says so.
Task<bool> Connection::ReadPiece(ImportBody& body) {
  body.filled = 0;
  while (body.filled < body.piece.size() && !body.parser.is_done()) {
    auto& buffer = body.parser.get().body();
    buffer.data = body.piece.data() + body.filled;
    buffer.size = body.piece.size() - body.filled;
    stream_.ExpireAfter(context_.options.body_timeout);
    auto [code, size] = co_await bhttp::async_read_some(stream_, buffer_, body.parser, kAwait);
    body.filled = body.piece.size() - body.parser.get().body().size;
    if (code == bhttp::error::need_buffer) break;
    if (code == bhttp::error::body_limit) {
      body.fed = MakeError(ErrorCode::kTooLarge, "http",
                           fmt::format("The prefix file is larger than the limit of {} bytes.",
                                       context_.options.import_bytes_max));
    }
    if (code) co_return false;
  }
  co_return true;
}

Task<bool> Connection::ServeImport(RouteMatch match) {
  Result<std::unique_ptr<tier::PrefixImporter>> importer =
      context_.service.prefixes().StartImport();
  if (!importer) {
    Response refusal = ErrorResponse(importer.error());
    const bool again = co_await Refuse(std::move(refusal), match.name);
    co_return again;
  }
  auto body = std::make_unique<ImportBody>(std::move(*parser_));
  std::function<void()> feed = [&] {
    body->fed = (*importer)->Feed({body->piece.data(), body->filled});
  };
  while (body->fed && !body->parser.is_done()) {
    const bool there = co_await ReadPiece(*body);
    if (!there && body->fed) co_return false;
    if (body->fed) co_await RunOnWorker(feed);
  }
  stream_.ExpireNever();
  Result<std::string> reply = MakeError(ErrorCode::kInternal, "http", "the import failed");
  std::function<void()> finish = [&] { reply = FinishImport(**importer, body->fed); };
  co_await RunOnWorker(finish);
  if (!body->fed) keep_alive_ = false;
  Response response = reply ? Response{.body = std::move(*reply)} : ErrorResponse(reply.error());
  const bool again = co_await Send(std::move(response), match.name, match.openai_dialect);
  if (!body->fed) co_await Linger();
  co_return again;
}

}  // namespace kvgate::http
