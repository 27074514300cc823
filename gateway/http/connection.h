// Connection: one client socket, from accept to close. Requests are read and answered one after the
// other; bytes that arrive early (pipelining) wait in the buffer or in the kernel.
//
// Threads: everything runs on the connection's thread except Drain, EndAnswer, Cancel and the wake
// function, which post to it. While an answer is awaited nobody reads the socket, so pipelined
// bytes stay untouched. Instead the socket's state is polled every poll_interval, which shows that
// a client has left whatever it sent before.
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

#include "gateway/access/access.h"
#include "gateway/access/gateway_keys.h"
#include "gateway/http/message/request_guard.h"
#include "gateway/http/message/response.h"
#include "gateway/http/message/router.h"
#include "gateway/http/server.h"
#include "gateway/http/service_call.h"
#include "gateway/http/socket/body_budget.h"
#include "gateway/http/socket/client_stream.h"
#include "gateway/http/socket/listener_tls.h"
#include "gateway/http/socket/task.h"
#include "gateway/http/targets.h"
#include "gateway/protocol/form/answer_extension.h"
#include "gateway/route/route_table.h"
#include "gateway/service/completion_start.h"
#include "gateway/service/prompts.h"
#include "gateway/service/work_pools.h"
#include "gateway/upstream/body_scan.h"
#include "gateway/upstream/exchange.h"
#include "gateway/upstream/model_list.h"
#include "gateway/upstream/secret_mask.h"
#include "gateway/upstream/upstreams.h"

namespace kvgate::http {

// State that all connections share; it outlives them.
struct ConnectionContext {
  const ServerOptions& options;
  service::Service& service;
  const message::RequestGuard& guard;
  service::WorkPools& pools;
  socket::BodyBudget& bodies;
  const CurrentTargets& targets;
  upstream::ModelListCache& model_lists;
  std::atomic<bool> draining{false};
  // Bytes of bodies that wait to be hashed on a worker; the last of them may outlive the context.
  std::shared_ptr<std::atomic<size_t>> shared_body_bytes = std::make_shared<std::atomic<size_t>>(0);
  // True while one request asks the stores for their numbers; that work may outlive the context.
  std::shared_ptr<std::atomic<bool>> refreshing = std::make_shared<std::atomic<bool>>(false);
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // `socket`'s executor must run one handler at a time.
  Connection(boost::asio::ip::tcp::socket socket, ConnectionContext& context, bool over_limit);

  // Serves the connection from start to close. No input from a client makes it throw.
  socket::Task<void> Run();
  // Closes the connection when it is idle or after the current answer. Callable from any thread.
  void Drain();
  // Ends the current answer, if any, with an error that the client can read. Callable from any
  // thread.
  void EndAnswer();
  // Closes the connection at once and cancels the current answer. Callable from any thread.
  void Cancel();

  boost::asio::any_io_executor executor() { return stream_.get_executor(); }

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  enum class Peer { kThere, kHalfClosed, kGone };
  // How a route asks the local engine.
  struct LocalTurn {
    bool any_model = false;
    bool has_next = false;
  };

  void TakeHead();
  void SpellTarget();
  socket::Task<bool> BeginTls();
  socket::Task<void> RefusePlain();
  socket::Task<bool> WaitForRequest();
  void BeginRequest();
  socket::Task<bool> ServeOne();
  socket::Task<bool> Dispatch(message::RouteMatch match);
  socket::Task<bool> ServeCall(message::RouteMatch match);
  socket::Task<bool> ReadBody();
  socket::Task<bool> ReadSizedBody(size_t size);
  socket::Task<bool> RefuseBody(Error error);
  void ExpireBody(std::chrono::steady_clock::time_point began, size_t received);
  // Returns the body's memory to the pool; called once nobody needs the body any more.
  void ReleaseBody();
  socket::Task<bool> RefuseOverLimit();
  socket::Task<bool> AnswerReadError(boost::beast::error_code code);
  socket::Task<bool> Refuse(message::Response refusal, std::string_view route);
  socket::Task<void> Linger();
  socket::Task<void> Linger(size_t bytes_max);

  // connection_completions.cc
  // Returns nullopt if the engine has no room for it and another target can be asked.
  socket::Task<std::optional<bool>> ServeCompletion(message::RouteMatch match, LocalTurn turn);
  socket::Task<bool> ServeTokenCount(message::RouteMatch match);
  socket::Task<void> DriveStart(service::CompletionStart& start);
  socket::Task<bool> SendStream(service::Completion& completion, message::RouteMatch match);
  void Settle();
  socket::Task<service::Completion::Output> TakeOutput(service::Completion& completion);
  socket::Task<bool> SendWhole(service::Completion& completion, message::RouteMatch match);
  socket::Task<bool> SendOutput(service::Completion::Output output, message::RouteMatch match);

  // connection_prefixes.cc
  socket::Task<bool> ServeWarm(message::RouteMatch match);
  socket::Task<bool> ServeExport(message::RouteMatch match);
  socket::Task<bool> ServeImport(message::RouteMatch match);
  struct ImportBody;
  struct ExportBody;
  socket::Task<bool> ReadPiece(ImportBody& body);
  uint64_t BodyLimit(const message::RouteResult& found) const;

  // connection_explain.cc
  message::Response HandleExplain();

  // connection_access.cc
  // Identifies the caller: the gateway key's name, else the credential as sent.
  std::string Credential() const;
  // The credential meant for a provider, as sent and without its scheme; empty if there is none.
  std::string_view ProviderCredential() const;
  // The gateway key's name, else a hash of the credential; empty if the caller sent neither.
  const std::string& Tenant();
  // Determines from the request's head who is calling.
  void Identify();
  bool TakeKey(std::string_view api_key);
  bool HasForwardingHeader() const;
  access::Caller WhoCalls();
  // Counts the request against the limits of the caller's key; an error if it exceeds them.
  Result<void> Admit(std::string_view model);
  Result<void> AdmitModel(std::string_view model, bool is_unknown);
  bool MayUse(std::string_view model) const;
  std::function<bool(std::string_view)> ModelFilter() const;
  // True if requests for unknown paths may go to `upstream` for this caller.
  bool MaySendUnknown(const upstream::Upstream& upstream) const;

  // routing.cc
  struct Routing;
  // The route of the model; null if it has none.
  route::Route* ModelRoute(const message::RouteMatch& match) const;
  socket::Task<bool> ServeRouted(message::RouteMatch match, route::Route& route);
  socket::Task<Result<service::Prompts::Known>> Recognize();
  socket::Task<std::optional<bool>> ServeTarget(Routing& routing, const route::Target& target,
                                                bool has_next);
  socket::Task<void> WaitForFlight(Routing& routing);
  // Counts the request and checks its prompt against the limits of the caller's key.
  socket::Task<Result<void>> CheckPrompt(std::string model);

  // forwarding.cc
  struct Forwarding;
  bool ForwardsUnknown(std::string_view target) const;
  bool IsForwarded(const message::RouteMatch& match) const;
  bool IsForeign(const message::RouteMatch& match) const;
  bool RunsLocally() const;
  // Reads the model and other fields from the body; an encoded body is decoded for that on a
  // worker.
  socket::Task<Result<void>> ScanBody();
  // Serves a generation with the local model if it has the name, else with an upstream.
  socket::Task<bool> ServeGeneration(message::RouteMatch match);
  struct ForwardArgs {
    upstream::Upstream* upstream = nullptr;  // null: chosen by header or model
    std::string_view model = {};             // the model to ask for; empty: the body's own
    bool has_next = false;
    route::SingleFlight::Participant* participant =
        nullptr;  // completed when the answer begins; may be null
  };
  socket::Task<bool> ServeForward(message::RouteMatch match);
  // Returns nullopt under the same conditions as Forward.
  socket::Task<std::optional<bool>> ForwardTo(message::RouteMatch match, ForwardArgs args);
  void Rename(Forwarding& job);
  // Returns nullopt if this target failed or answered with a fallback status, nothing has been sent
  // to the client, and there is a next target.
  socket::Task<std::optional<bool>> Forward(Forwarding& job);
  bool PassesOn(Forwarding& job, const Result<void>& started) const;
  socket::Task<Result<void>> PreparePrompt(Forwarding& job);
  void SayLeftOut(const Forwarding& job);
  bool EstimatesTokens(const Forwarding& job) const;
  bool SharesBody() const;
  std::shared_ptr<const std::string> ShareBody();
  socket::Task<bool> PassAnswer(Forwarding& job);
  void BeginHead();
  void TakeAnswerFields(Forwarding& job);
  // Returns nullopt if the body can be passed on unmasked.
  std::optional<upstream::SecretMask> FailureMask(const Forwarding& job) const;
  socket::Task<bool> PassEncodedFailure(Forwarding& job);
  std::optional<protocol::form::AnswerExtension> ExtensionOf(const Forwarding& job) const;
  std::string ExplanationOf(Forwarding& job);
  bool Explains() const { return Header("x-kvgate-explain") == "1"; }
  socket::Task<bool> WritePiece(std::string_view before, std::string_view piece,
                                std::string_view after);
  socket::Task<bool> SendFailure(Forwarding& job, Error error);
  // The credential that `upstream` gets for this caller; empty if it gets none.
  std::string SentCredential(const upstream::Upstream* upstream) const;
  void Begin(Forwarding& job);
  void TakeTimes(Forwarding& job) const;
  void End(Forwarding& job);
  upstream::wire::HeaderFields RequestFields() const;
  void ArmTick();
  void OnTick();

  // translated_answer.cc
  // Translates the body into the upstream's dialect if the upstream does not speak the client's.
  socket::Task<Result<void>> Translate(Forwarding& job);
  socket::Task<bool> SendEstimate(Forwarding& job);
  socket::Task<bool> PassTranslated(Forwarding& job);
  socket::Task<bool> PassRefusal(Forwarding& job);
  socket::Task<bool> WriteEvents(Forwarding& job, std::string events, bool last);
  socket::Task<bool> EndCut(Forwarding& job, std::string out, std::string why);
  void TellHead(Forwarding& job);

  // connection_models.cc
  socket::Task<bool> ServeModels(message::RouteMatch match);
  socket::Task<void> AddModelsOf(upstream::Upstream& upstream,
                                 std::vector<upstream::ListedModel>& all);
  socket::Task<std::string> FetchModels(upstream::Upstream& upstream);

  // Sleeps until woken or the poll interval is over. Returns false if the client is gone.
  socket::Task<bool> WaitForProgress(std::string probe);
  // Runs `work` on a thread of the pool. `work` may borrow from the awaiting coroutine, which does
  // nothing else meanwhile. Returns an error if `work` was not called or ran out of memory.
  socket::Task<Result<void>> RunOn(service::WorkQueue& pool, std::function<void()> work);
  // Larger bodies are scanned, copied and hashed on a worker: a body of 15 MB would block a loop,
  // and every connection on it, for a tenth of a second.
  static constexpr size_t kLargeBodyBytes = size_t{1} << 20;
  socket::Task<void> RunSized(size_t body_bytes, std::function<void()> work);
  // Like RunOn, for work that waits for the disk, which may never answer; so `work` must own what
  // it uses. Returns an error if `work` was not called or has not ended in time, in which case it
  // may still do so. Work that counts `steps` gets the full timeout for each step.
  using Steps = ServiceCall::Steps;
  socket::Task<Result<void>> RunOnDisk(service::WorkQueue& pool, std::function<void()> work,
                                       std::shared_ptr<const Steps> steps = nullptr);
  // One piece of work that was posted to a pool.
  struct Job {
    bool done = false;  // set on the connection's thread
    std::atomic<bool> begun{false};
    std::atomic<bool> ended{false};  // `work` has ended and was destroyed
    std::atomic<bool> given_up{false};
  };
  Result<std::shared_ptr<Job>> PostJob(service::WorkQueue& pool, std::function<void()> work);
  socket::Task<bool> Await(Job& job, std::chrono::steady_clock::time_point deadline);
  socket::Task<void> RefreshNumbers();

  socket::Task<bool> Send(message::Response response, std::string_view route, bool openai_dialect);
  socket::Task<bool> Write(std::string bytes);
  Peer PollPeer();
  // True if bytes of further requests have arrived behind the current one.
  bool HasUnread();
  std::function<void()> MakeWake();
  message::HeadOptions Head(bool openai_dialect) const;
  std::string Frame(std::string_view data) const;
  std::string_view Header(std::string_view name) const;
  void Count(std::string_view route, int status);

  ConnectionContext& context_;
  // Targets of the current request. They are taken after its head, so a kept connection gets the
  // newest.
  std::shared_ptr<const Targets> targets_;
  uint64_t targets_generation_ = 0;
  const bool is_tls_;
  const bool is_loopback_;
  socket::ClientStream stream_;
  boost::asio::steady_timer waiter_;
  boost::asio::steady_timer tick_;  // armed while a request is forwarded and up to one tick longer
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  service::Completion* completion_ = nullptr;     // current; owned by ServeCompletion's frame
  upstream::Exchange* exchange_ = nullptr;        // current; owned by the forwarding frame
  access::GatewayKeys::Key* key_ = nullptr;       // the caller's; may be null
  bool key_is_credential_ = false;                // it was sent as a provider's credential is
  access::CallerEvidence evidence_;               // evidence of the caller's role
  upstream::PathKind kind_;                       // the kind of the request's path
  upstream::BodyScan scan_;                       // the scanned body, if routing needs it
  std::optional<std::string> decoded_;            // the body, if it came encoded and is readable
  socket::BodyBudget::Lease lease_;               // memory of the body and of `decoded_`
  std::optional<service::Prompts::Known> known_;  // the recognized prompt, once needed
  std::chrono::steady_clock::time_point received_at_;  // the end of the request's head
  std::string request_id_;
  std::string left_out_;               // for the current request; see HeadOptions
  std::optional<std::string> tenant_;  // the caller's, once needed
  bool keep_alive_ = true;
  bool http_1_0_ = false;
  bool head_only_ = false;
  bool idle_ = false;
  bool cancelled_ = false;
  bool probed_ = false;
  bool needs_model_ = false;  // the request must name a model
  bool tick_armed_ = false;
  bool head_sent_ = false;            // the head of a forwarded answer has been sent
  bool half_closed_at_head_ = false;  // the client had stopped sending by then
  bool client_gone_ = false;          // the client left while its request was forwarded
  const bool over_limit_;
};

}  // namespace kvgate::http
