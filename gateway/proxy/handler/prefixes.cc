// The prefix endpoints that take long or are large: warm, export, import. Of an exported or
// imported file only one piece is in memory.
#include <chrono>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "gateway/proxy/handler/handler.h"

namespace kvgate::proxy::handler {

using request::ErrorResponse;
using request::Response;

namespace {

constexpr size_t kPieceBytes = size_t{256} << 10;

// A job also waits for the disk, which wakes nobody, so it is asked this often.
constexpr std::chrono::milliseconds kLongestSleep{200};

// Waits for the job; returns false if it is to be given up.
Task<bool> AwaitWarm(RequestContext& request, local::WarmJob& job) {
  request::ResponseSink& sink = request.sink();
  request::Watcher watcher;
  sink.Watch(&watcher);
  bool is_done = job.Poll();
  while (!is_done && !sink.is_gone() && !sink.is_to_end()) {
    co_await sink.signal().SleepUntil(SteadyClock::now() + kLongestSleep);
    is_done = job.Poll();
  }
  sink.Watch(nullptr);
  co_return is_done && !sink.is_gone();
}

Task<Result<std::shared_ptr<local::WarmJob>>> StartWarm(RequestContext& request) {
  Result<std::shared_ptr<local::WarmJob>> job =
      MakeError(ErrorCode::kInternal, "proxy", "starting to warm failed");
  const config::KeyConfig* const key = request.caller().key_config();
  if (key != nullptr) {
    Result<void> admitted = co_await request.Scan();
    if (admitted) admitted = request.Admit(request.scan().model);
    if (!admitted) co_return admitted.error();
  }
  const std::string credential = request.caller().credential();
  const service::Service::WarmArgs args{
      .body = request.body().bytes(),
      .credential = credential,
      .prompt_tokens_max = key == nullptr ? 0 : key->prompt_tokens_max,
      .tenant = request.caller().tenant(),
      .prompt =
          service::Service::PromptArgs{
              .engine = request.targets().engine, .key = key, .fields = request.head().fields},
      .wake = request.sink().signal().MakeWake()};
  std::function<void()> start = [&] { job = request.environment().service.StartWarm(args); };
  const Result<void> started =
      co_await request.work().RunOn(request.work().pools().request, std::move(start));
  if (!started) co_return started.error();
  co_return job;
}

class WarmHandler final : public Handler {
 public:
  Task<void> Serve(RequestContext& request) const override {
    const Result<std::shared_ptr<local::WarmJob>> job = co_await StartWarm(request);
    if (!job) {
      Error error = job.error();
      co_await request.Refuse(std::move(error));
      co_return;
    }
    // The tokens are charged at once, because a client that leaves early has used them too.
    if (access::GatewayKeys::Key* const key = request.caller().key(); key != nullptr) {
      key->Spend((*job)->num_tokens(), SteadyClock::now());
    }
    const bool is_there = co_await AwaitWarm(request, **job);
    if (!is_there) {
      co_await request::GiveUp(request);
      co_return;
    }
    auto said = std::make_shared<Result<std::string>>(
        MakeError(ErrorCode::kInternal, "proxy", "warming failed"));
    std::function<void()> finish = [job = *job, said] { *said = job->Finish(); };
    const Result<void> ran =
        co_await request.work().RunOnDisk(request.work().pools().bulk, std::move(finish));
    const Result<std::string> body = ran ? *said : ran.error();
    Response response = body ? Response{.body = *body} : ErrorResponse(body.error());
    co_await request.Reply(std::move(response));
  }
};

// An export in progress; shared with the thread that reads from the disk.
struct Export {
  Result<std::unique_ptr<tier::PrefixExporter>> exporter =
      MakeError(ErrorCode::kInternal, "proxy", "starting the export failed");
  Result<bool> more = false;
  std::string piece;
};

// Sends the file piece by piece.
Task<void> SendFile(RequestContext& request, std::shared_ptr<Export> file) {
  request::ResponseSink& sink = request.sink();
  const std::string name = request.place().argument + ".kvgate";
  const request::AnswerHead head{.kind = request::AnswerHead::Kind::kDownload,
                                 .info = {.request_id = request.head().request_id},
                                 .file_name = name};
  request.Count(200);
  sink.Begin(head);
  bool more = !request.head().is_head;
  if (!more) co_await sink.Write("", true);
  while (more) {
    std::function<void()> work = [file] {
      file->piece.clear();
      file->more = (*file->exporter)->Next(file->piece);
    };
    const Result<void> ran =
        co_await request.work().RunOnDisk(request.work().pools().bulk, std::move(work));
    if (!ran || !file->more) {
      // The head is out, so the client can learn of the error only from a truncated body.
      const Error& error = ran ? file->more.error() : ran.error();
      KVGATE_LOG(kError, "proxy", "request {}: {}", request.head().request_id, error.ToString());
      sink.Cut();
      co_return;
    }
    more = *file->more;
    const bool written = co_await sink.Write(file->piece, !more);
    if (!written) co_return;
  }
}

class ExportHandler final : public Handler {
 public:
  Task<void> Serve(RequestContext& request) const override {
    const Result<void> admitted = request::AdmitOwnData(request);
    if (!admitted) {
      Error error = admitted.error();
      co_await request.Refuse(std::move(error));
      co_return;
    }
    auto file = std::make_shared<Export>();
    std::function<void()> start = [file, &prefixes = request.environment().service.prefixes(),
                                   id = request.place().argument, caller = request.caller().who()] {
      file->exporter = prefixes.StartExport(caller, id);
    };
    const Result<void> started =
        co_await request.work().RunOnDisk(request.work().pools().bulk, std::move(start));
    if (!started || !file->exporter) {
      Error error = started ? file->exporter.error() : started.error();
      co_await request.Refuse(std::move(error));
      co_return;
    }
    co_await SendFile(request, std::move(file));
  }
};

// An import in progress; shared with the thread that writes to the disk.
struct Import {
  std::unique_ptr<tier::PrefixImporter> importer;
  std::vector<char> piece = std::vector<char>(kPieceBytes);
  size_t filled = 0;
  Result<void> fed = {};
};

// Feeds the body to the importer. Returns false if nothing is to be said: the client is gone.
Task<bool> Feed(RequestContext& request, std::shared_ptr<Import> file, Result<void>& ran) {
  while (file->fed) {
    const Result<size_t> filled = co_await request.body().source()->Read(file->piece);
    if (!filled && filled.error().code == ErrorCode::kCancelled) co_return false;
    if (!filled) file->fed = filled.error();
    if (!filled || *filled == 0) co_return true;
    file->filled = *filled;
    std::function<void()> feed = [file] {
      file->fed = file->importer->Feed({file->piece.data(), file->filled});
    };
    ran = co_await request.work().RunOnDisk(request.work().pools().bulk, std::move(feed));
    if (!ran) co_return true;
  }
  co_return true;
}

Result<std::string> Finish(Import& file) {
  if (!file.fed) return file.fed.error();
  KVGATE_TRY(const tier::ImportReport report, file.importer->Finish());
  return local::PrefixService::Describe(report);
}

class ImportHandler final : public Handler {
 public:
  Task<void> Serve(RequestContext& request) const override {
    Result<std::unique_ptr<tier::PrefixImporter>> opened =
        request.environment().service.prefixes().StartImport(request.place().any);
    if (!opened) {
      co_await request.body().source()->Skip();
      Error error = opened.error();
      co_await request.Refuse(std::move(error));
      co_return;
    }
    auto file = std::make_shared<Import>(Import{.importer = std::move(*opened)});
    Result<void> ran;
    const bool is_there = co_await Feed(request, file, ran);
    if (!is_there) co_return;
    auto said = std::make_shared<Result<std::string>>(
        MakeError(ErrorCode::kInternal, "proxy", "the import failed"));
    if (ran) {
      std::function<void()> finish = [file, said] { *said = Finish(*file); };
      ran = co_await request.work().RunOnDisk(request.work().pools().bulk, std::move(finish));
    }
    // A thread that hangs still uses the file, so the rest of the body is not read.
    const Result<std::string> body = ran ? *said : ran.error();
    Response response = body ? Response{.body = *body} : ErrorResponse(body.error());
    co_await request.Reply(std::move(response));
  }
};

}  // namespace

const Handler& WarmPrefix() {
  static const WarmHandler handler;
  return handler;
}

const Handler& ExportPrefix() {
  static const ExportHandler handler;
  return handler;
}

const Handler& ImportPrefix() {
  static const ImportHandler handler;
  return handler;
}

}  // namespace kvgate::proxy::handler
