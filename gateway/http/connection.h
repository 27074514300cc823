// Connection: one client socket, from accept to close. Requests are read and answered one after the
// other; bytes that arrive early (pipelining) wait in the buffer or in the kernel.
//
// Threads: everything runs on the connection's thread but Drain, EndAnswer, Cancel and the wake
// function, which post to it. While an answer is waited for nobody reads the socket, so pipelined
// bytes are safe; instead the socket's state is polled every poll_interval, which tells a client
// that has left whatever it sent before.
#pragma once

#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gateway/http/body_budget.h"
#include "gateway/http/client_stream.h"
#include "gateway/http/socket/listener_tls.h"
#include "gateway/http/message/request_guard.h"
#include "gateway/http/message/response.h"
#include "gateway/http/router.h"
#include "gateway/http/server.h"
#include "gateway/http/service_call.h"
#include "gateway/http/targets.h"
#include "gateway/http/socket/task.h"
#include "gateway/protocol/form/answer_extension.h"
#include "gateway/route/route_table.h"
#include "gateway/access/access.h"
#include "gateway/service/completion_start.h"
#include "gateway/service/gateway_keys.h"
#include "gateway/service/prompts.h"
#include "gateway/service/work_pools.h"
#include "gateway/upstream/body_scan.h"
#include "gateway/upstream/exchange.h"
#include "gateway/upstream/model_list.h"
#include "gateway/upstream/secret_mask.h"
#include "gateway/upstream/upstreams.h"

namespace kvgate::http {

// What all connections share; outlives them.
struct ConnectionContext {
  const ServerOptions& options;
  service::Service& service;
  const RequestGuard& guard;
  service::WorkPools& pools;
  BodyBudget& bodies;
  const CurrentTargets& targets;
  upstream::ModelListCache& model_lists;
  std::atomic<bool> draining{false};
  // Of bodies that wait to be hashed on a worker; the last of them may outlive this.
  std::shared_ptr<std::atomic<size_t>> shared_body_bytes = std::make_shared<std::atomic<size_t>>(0);
  // Somebody is asking the stores for their numbers; they may take until after all of this is gone.
  std::shared_ptr<std::atomic<bool>> refreshing = std::make_shared<std::atomic<bool>>(false);
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // `socket`'s executor runs one thing at a time.
  Connection(boost::asio::ip::tcp::socket socket, ConnectionContext& context, bool over_limit);

  // The connection's whole life. Never throws what a client can cause.
  Task<void> Run();
  // Close when idle, or after the answer under way. Any thread.
  void Drain();
  // End the answer under way, if any, by an error that its client gets to read. Any thread.
  void EndAnswer();
  // Close now; the answer under way is cancelled. Any thread.
  void Cancel();

  boost::asio::any_io_executor executor() { return stream_.get_executor(); }

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  enum class Peer { kThere, kHalfClosed, kGone };
  // How a route has the local engine asked.
  struct LocalTurn {
    bool any_model = false;
    bool has_next = false;
  };

  void TakeHead();
  void SpellTarget();
  Task<bool> BeginTls();
  Task<void> RefusePlain();
  Task<bool> WaitForRequest();
  void BeginRequest();
  Task<bool> ServeOne();
  Task<bool> Dispatch(RouteMatch match);
  Task<bool> ServeCall(RouteMatch match);
  Task<bool> ReadBody();
  Task<bool> ReadSizedBody(size_t size);
  Task<bool> RefuseBody(Error error);
  void ExpireBody(std::chrono::steady_clock::time_point began, size_t received);
  // Once nobody needs it any more.
  void ReleaseBody();
  Task<bool> RefuseOverLimit();
  Task<bool> AnswerReadError(boost::beast::error_code code);
  Task<bool> Refuse(Response refusal, std::string_view route);
  Task<void> Linger();
  Task<void> Linger(size_t bytes_max);

  // connection_completions.cc
  // Nothing: there is no room for it, and someone else can be asked.
  Task<std::optional<bool>> ServeCompletion(RouteMatch match, LocalTurn turn);
  Task<bool> ServeTokenCount(RouteMatch match);
  Task<void> DriveStart(service::CompletionStart& start);
  Task<bool> SendStream(service::Completion& completion, RouteMatch match);
  void Settle();
  Task<service::Completion::Output> TakeOutput(service::Completion& completion);
  Task<bool> SendWhole(service::Completion& completion, RouteMatch match);
  Task<bool> SendOutput(service::Completion::Output output, RouteMatch match);

  // connection_prefixes.cc
  Task<bool> ServeWarm(RouteMatch match);
  Task<bool> ServeExport(RouteMatch match);
  Task<bool> ServeImport(RouteMatch match);
  struct ImportBody;
  struct ExportBody;
  Task<bool> ReadPiece(ImportBody& body);
  uint64_t BodyLimit(const RouteResult& found) const;

  // connection_explain.cc
  Response HandleExplain();

  // connection_access.cc
  // What tells callers apart: their gateway key's name, else their credential as sent.
  std::string Credential() const;
  // A provider's, as sent, without its scheme; empty: there is none.
  std::string_view ProviderCredential() const;
  // The key's name, else a hash of the credential; empty: neither.
  const std::string& Tenant();
  // Who is calling, by what the head shows.
  void Identify();
  bool TakeKey(std::string_view api_key);
  bool HasForwardingHeader() const;
  service::Caller WhoCalls();
  // Counts a request against the limits of the caller's key.
  Result<void> Admit(std::string_view model);
  Result<void> AdmitModel(std::string_view model, bool is_unknown);
  bool MayUse(std::string_view model) const;
  std::function<bool(std::string_view)> ModelFilter() const;
  // Whether a path that is not known goes there for this caller.
  bool MaySendUnknown(const upstream::Upstream& upstream) const;

  // routing.cc
  struct Routing;
  // The model's route; null: it has none.
  route::Route* ModelRoute(const RouteMatch& match) const;
  Task<bool> ServeRouted(RouteMatch match, route::Route& route);
  Task<Result<service::Prompts::Known>> Recognize();
  Task<std::optional<bool>> ServeTarget(Routing& routing, const route::Target& target,
                                        bool has_next);
  Task<void> WaitForFlight(Routing& routing);
  // What a caller may ask for at all.
  Task<Result<void>> CheckPrompt(std::string model);

  // forwarding.cc
  struct Forwarding;
  bool ForwardsUnknown(std::string_view target) const;
  bool IsForwarded(const RouteMatch& match) const;
  bool IsForeign(const RouteMatch& match) const;
  bool RunsLocally() const;
  // Looks into the body; one that is encoded is decoded for that, on a worker.
  Task<Result<void>> ScanBody();
  // A completion: of the local model where it has the name, else of an upstream.
  Task<bool> ServeGeneration(RouteMatch match);
  struct ForwardArgs {
    upstream::Upstream* upstream = nullptr;  // null: chosen by header or model
    std::string_view model = {};             // to be asked for there; empty: the body's own
    bool has_next = false;
    route::SingleFlight::Seat* seat = nullptr;  // lands when the answer begins
  };
  Task<bool> ServeForward(RouteMatch match);
  // Nothing: as Forward.
  Task<std::optional<bool>> ForwardTo(RouteMatch match, ForwardArgs args);
  void Rename(Forwarding& job);
  // Nothing: it was not answered, no byte has gone out, and there is a next target.
  Task<std::optional<bool>> Forward(Forwarding& job);
  bool PassesOn(Forwarding& job, const Result<void>& started) const;
  Task<Result<void>> PreparePrompt(Forwarding& job);
  void SayLeftOut(const Forwarding& job);
  bool EstimatesTokens(const Forwarding& job) const;
  bool SharesBody() const;
  std::shared_ptr<const std::string> ShareBody();
  Task<bool> PassAnswer(Forwarding& job);
  void BeginHead();
  void TakeAnswerFields(Forwarding& job);
  // Nothing: the body goes out as it came.
  std::optional<upstream::SecretMask> FailureMask(const Forwarding& job) const;
  Task<bool> PassEncodedFailure(Forwarding& job);
  std::optional<protocol::AnswerExtension> ExtensionOf(const Forwarding& job) const;
  std::string ExplanationOf(Forwarding& job);
  bool Explains() const { return Header("x-kvgate-explain") == "1"; }
  Task<bool> WritePiece(std::string_view before, std::string_view piece, std::string_view after);
  Task<bool> SendFailure(Forwarding& job, Error error);
  // What stands for the caller at that upstream; empty: nothing.
  std::string SentCredential(const upstream::Upstream* upstream) const;
  void Begin(Forwarding& job);
  void TakeTimes(Forwarding& job) const;
  void End(Forwarding& job);
  upstream::HeaderFields RequestFields() const;
  void ArmTick();
  void OnTick();

  // translated_answer.cc
  // Makes the body one of the upstream's dialect, where it does not speak the client's.
  Task<Result<void>> Translate(Forwarding& job);
  Task<bool> SendEstimate(Forwarding& job);
  Task<bool> PassTranslated(Forwarding& job);
  Task<bool> PassRefusal(Forwarding& job);
  Task<bool> WriteEvents(Forwarding& job, std::string events, bool last);
  Task<bool> EndCut(Forwarding& job, std::string out, std::string why);
  void TellHead(Forwarding& job);

  // connection_models.cc
  Task<bool> ServeModels(RouteMatch match);
  Task<void> AddModelsOf(upstream::Upstream& upstream, std::vector<upstream::ListedModel>& all);
  Task<std::string> FetchModels(upstream::Upstream& upstream);

  // Sleeps until woken or the poll interval is over; false: the client is gone.
  Task<bool> WaitForProgress(std::string probe);
  // On a thread of the pool; `work` may borrow from the awaiting coroutine, which does nothing else
  // meanwhile. An error: it was not called, or had no memory.
  Task<Result<void>> RunOn(service::WorkQueue& pool, std::function<void()> work);
  // A larger body is scanned, copied and hashed on a worker: one of 15 MB would hold a loop, and
  // all that wait for it, for a tenth of a second.
  static constexpr size_t kLargeBodyBytes = size_t{1} << 20;
  Task<void> RunSized(size_t body_bytes, std::function<void()> work);
  // The same for what waits for the disk, which may never answer: `work` owns what it uses. An
  // error: it was not called, or has not come to an end in time and may still do so. What counts
  // its steps has the time for each of them anew.
  using Steps = ServiceCall::Steps;
  Task<Result<void>> RunOnDisk(service::WorkQueue& pool, std::function<void()> work,
                               std::shared_ptr<const Steps> steps = nullptr);
  // One piece of work on its way.
  struct Job {
    bool done = false;  // on the connection's thread
    std::atomic<bool> begun{false};
    std::atomic<bool> ended{false};  // `work` is done, and gone
    std::atomic<bool> given_up{false};
  };
  Result<std::shared_ptr<Job>> PostJob(service::WorkQueue& pool, std::function<void()> work);
  Task<bool> Await(Job& job, std::chrono::steady_clock::time_point deadline);
  Task<void> RefreshNumbers();

  Task<bool> Send(Response response, std::string_view route, bool openai_dialect);
  Task<bool> Write(std::string bytes);
  Peer PollPeer();
  // Whether requests have come behind the one under way.
  bool HasUnread();
  std::function<void()> MakeWake();
  HeadOptions Head(bool openai_dialect) const;
  std::string Frame(std::string_view data) const;
  std::string_view Header(std::string_view name) const;
  void Count(std::string_view route, int status);

  ConnectionContext& context_;
  // Of the request under way. Read after its head: a kept connection gets the newest.
  std::shared_ptr<const Targets> targets_;
  uint64_t targets_generation_ = 0;
  const bool is_tls_;
  const bool is_loopback_;
  ClientStream stream_;
  boost::asio::steady_timer waiter_;
  boost::asio::steady_timer tick_;  // armed while something is forwarded, and a little longer
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  service::Completion* completion_ = nullptr;     // under way; owned by ServeCompletion's frame
  upstream::Exchange* exchange_ = nullptr;        // under way; owned by ServeForward's frame
  service::GatewayKeys::Key* key_ = nullptr;      // the caller's
  bool key_is_credential_ = false;                // it stands where a provider's would
  service::CallerEvidence evidence_;              // of the caller's role
  upstream::PathKind kind_;                       // of the request's path
  upstream::BodyScan scan_;                       // of its body, where that decides
  std::optional<std::string> decoded_;            // the body, where it came encoded and is readable
  BodyBudget::Lease lease_;                       // of both
  std::optional<service::Prompts::Known> known_;  // of its prompt, where someone asked
  std::chrono::steady_clock::time_point received_at_;  // the end of the request's head
  std::string request_id_;
  std::string left_out_;               // of the request that is answered; see HeadOptions
  std::optional<std::string> tenant_;  // the caller's, where someone asked
  bool keep_alive_ = true;
  bool http_1_0_ = false;
  bool head_only_ = false;
  bool idle_ = false;
  bool cancelled_ = false;
  bool probed_ = false;
  bool needs_model_ = false;  // the request has to name one
  bool tick_armed_ = false;
  bool head_sent_ = false;            // of a forwarded answer
  bool half_closed_at_head_ = false;  // and the client had stopped sending by then
  bool client_gone_ = false;          // while something was forwarded for it
  const bool over_limit_;
};

}  // namespace kvgate::http
