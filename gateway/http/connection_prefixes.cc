// The prefix endpoints that take long or are large: warm, export, import. Warm waits as a
// completion does; of an exported or imported file only one piece is in memory.
#include <fmt/format.h>

#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/read.hpp>
#include <chrono>
#include <utility>
#include <vector>

#include "base/log.h"
#include "gateway/http/connection.h"

namespace kvgate::http {

using message::ErrorResponse;
using message::Response;
using socket::Task;

namespace {

namespace bhttp = boost::beast::http;

constexpr size_t kPieceBytes = size_t{256} << 10;

Result<std::string> FinishImport(tier::PrefixImporter& importer, const Result<void>& fed) {
  if (!fed) return fed.error();
  KVGATE_TRY(const tier::ImportReport report, importer.Finish());
  return local::PrefixService::Describe(report);
}

}  // namespace

// The body of an import while it is read into `piece`, never as a whole. Shared with the thread
// that writes to the disk.
struct Connection::ImportBody {
  ImportBody(Parser&& head, std::unique_ptr<tier::PrefixImporter> into)
      : parser(std::move(head)), importer(std::move(into)), piece(kPieceBytes) {}
  bhttp::request_parser<bhttp::buffer_body> parser;
  std::unique_ptr<tier::PrefixImporter> importer;
  std::vector<char> piece;
  size_t filled = 0;
  Result<void> fed;
};

Task<bool> Connection::ServeWarm(message::RouteMatch match) {
  Result<std::shared_ptr<local::WarmJob>> job =
      MakeError(ErrorCode::kInternal, "http", "starting to warm failed");
  if (key_ != nullptr) {
    Result<void> admitted = co_await ScanBody();
    if (admitted) admitted = Admit(scan_.model);
    if (!admitted) {
      Response refusal = ErrorResponse(admitted.error());
      const bool again = co_await Send(std::move(refusal), match.name, match.openai_dialect);
      co_return again;
    }
  }
  const std::string credential = Credential();
  const service::Service::WarmArgs args{
      .body = parser_->get().body(),
      .credential = credential,
      .prompt_tokens_max = key_ == nullptr ? 0 : key_->config().prompt_tokens_max,
      .wake = MakeWake()};
  std::function<void()> start = [&] { job = context_.service.StartWarm(args); };
  const Result<void> started = co_await RunOn(context_.pools.request, std::move(start));
  if (!started) job = started.error();
  // The tokens are charged at once, because a client that leaves early has used them too.
  if (job && key_ != nullptr) key_->Spend((*job)->num_tokens(), std::chrono::steady_clock::now());
  while (job && !(*job)->Poll()) {
    // As for a whole answer, an interim response shows if the client has left.
    std::string probe = http_1_0_ ? "" : "HTTP/1.1 100 Continue\r\n\r\n";
    const bool there = co_await WaitForProgress(std::move(probe));
    if (there) continue;
    if (!cancelled_) context_.service.metrics().client_disconnects.Add();
    Count(match.name, cancelled_ ? 503 : 499);
    co_return false;
  }
  Result<std::string> body = MakeError(ErrorCode::kInternal, "http", "warming failed");
  if (job) {
    auto said = std::make_shared<Result<std::string>>(body);
    std::function<void()> finish = [job = *job, said] { *said = job->Finish(); };
    const Result<void> ran = co_await RunOnDisk(context_.pools.bulk, std::move(finish));
    body = ran ? *said : ran.error();
  } else {
    body = job.error();
  }
  Response response = body ? Response{.body = std::move(*body)} : ErrorResponse(body.error());
  const bool again = co_await Send(std::move(response), match.name, match.openai_dialect);
  co_return again;
}

// An export in progress; shared with the thread that reads from the disk.
struct Connection::ExportBody {
  Result<std::unique_ptr<tier::PrefixExporter>> exporter =
      MakeError(ErrorCode::kInternal, "http", "starting the export failed");
  Result<bool> more = false;
  std::string piece;
};

Task<bool> Connection::ServeExport(message::RouteMatch match) {
  auto body = std::make_shared<ExportBody>();
  std::function<void()> start = [body, &prefixes = context_.service.prefixes(), id = match.argument,
                                 caller = WhoCalls()] {
    body->exporter = prefixes.StartExport(caller, id);
  };
  const Result<void> started = co_await RunOnDisk(context_.pools.bulk, std::move(start));
  if (!started || !body->exporter) {
    Response response = ErrorResponse(started ? body->exporter.error() : started.error());
    const bool again = co_await Send(std::move(response), match.name, match.openai_dialect);
    co_return again;
  }
  if (http_1_0_) keep_alive_ = false;
  Count(match.name, 200);
  std::string pending = message::DownloadHead(Head(false), match.argument + ".kvgate");
  bool more = !head_only_;
  while (more) {
    std::function<void()> work = [body] {
      body->piece.clear();
      body->more = (*body->exporter)->Next(body->piece);
    };
    const Result<void> ran = co_await RunOnDisk(context_.pools.bulk, std::move(work));
    if (!ran || !body->more) {
      // The head is out, so the client can learn of the error only from a truncated body.
      const Error& error = ran ? body->more.error() : ran.error();
      KVGATE_LOG(kError, "http", "request {}: {}", request_id_, error.ToString());
      co_return false;
    }
    more = *body->more;
    pending += http_1_0_ ? body->piece : message::Chunk(body->piece);
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

// Reads the next piece of the body: kPieceBytes, or fewer at its end. Returns false if the client
// is gone or sends more than the limit; in the latter case `fed` holds the error.
Task<bool> Connection::ReadPiece(ImportBody& body) {
  body.filled = 0;
  while (body.filled < body.piece.size() && !body.parser.is_done()) {
    auto& buffer = body.parser.get().body();
    buffer.data = body.piece.data() + body.filled;
    buffer.size = body.piece.size() - body.filled;
    stream_.ExpireAfter(context_.options.body_timeout);
    auto [code, size] =
        co_await bhttp::async_read_some(stream_, buffer_, body.parser, socket::kAwait);
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

Task<bool> Connection::ServeImport(message::RouteMatch match) {
  Result<std::unique_ptr<tier::PrefixImporter>> opened =
      context_.service.prefixes().StartImport(match.any);
  if (!opened) {
    Response refusal = ErrorResponse(opened.error());
    const bool again = co_await Refuse(std::move(refusal), match.name);
    co_return again;
  }
  auto body = std::make_shared<ImportBody>(std::move(*parser_), std::move(*opened));
  while (body->fed && !body->parser.is_done()) {
    const bool there = co_await ReadPiece(*body);
    if (!there && body->fed) co_return false;
    std::function<void()> feed = [body] {
      body->fed = body->importer->Feed({body->piece.data(), body->filled});
    };
    Result<void> ran;
    if (body->fed) ran = co_await RunOnDisk(context_.pools.bulk, std::move(feed));
    if (ran) continue;
    // The thread that hangs still uses the body, so it cannot be read any further.
    keep_alive_ = false;
    Response response = ErrorResponse(ran.error());
    co_await Send(std::move(response), match.name, match.openai_dialect);
    co_await Linger();
    co_return false;
  }
  stream_.ExpireNever();
  auto reply = std::make_shared<Result<std::string>>(
      MakeError(ErrorCode::kInternal, "http", "the import failed"));
  const bool whole = body->fed.has_value();
  std::function<void()> finish = [body, reply] {
    *reply = FinishImport(*body->importer, body->fed);
  };
  const Result<void> ran = co_await RunOnDisk(context_.pools.bulk, std::move(finish));
  if (!whole) keep_alive_ = false;
  Response response = ErrorResponse(ran ? Error() : ran.error());
  if (ran) response = *reply ? Response{.body = std::move(**reply)} : ErrorResponse(reply->error());
  const bool again = co_await Send(std::move(response), match.name, match.openai_dialect);
  if (!whole) co_await Linger();
  co_return again;
}

}  // namespace kvgate::http
