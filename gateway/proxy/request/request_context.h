// RequestContext: one request on its way through the gateway: its head and body, its caller, and
// what is found out about it. Each of these is computed once, when it is first asked for.
//
// Used on the sink's executor, by one coroutine at a time.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "gateway/access/access.h"
#include "gateway/proxy/request/caller.h"
#include "gateway/proxy/request/environment.h"
#include "gateway/proxy/request/request_body.h"
#include "gateway/proxy/request/response_sink.h"
#include "gateway/proxy/request/route.h"
#include "gateway/proxy/work/work_runner.h"
#include "gateway/service/prompts.h"
#include "gateway/session/sessions.h"
#include "gateway/upstream/body_scan.h"
#include "gateway/upstream/upstreams.h"

namespace kvgate::session::compaction {
struct Insertion;
}

namespace kvgate::proxy::request {

// A request's head, as its transport read it. The views must outlive the context.
struct RequestHead {
  std::string request_id;
  std::string_view method;
  std::string_view target;  // with the query
  upstream::wire::HeaderFields fields;
  bool is_head = false;      // HEAD: the answer's body stays away
  bool is_loopback = false;  // the caller is on this machine
  // The transport can say how long a piece is, so that an answer's length may be changed.
  bool is_framed = true;
  std::chrono::steady_clock::time_point received_at;
  // A request of the gateway's own: what it is for, as a source of the ledger; empty: a client's.
  std::string_view purpose = {};
};

struct AnswerNotes {
  std::string left_out = {};    // parts of the request that were not understood
  std::string compaction = {};  // of the window of the request's session; empty: it has none
  // The gateway's prompt that it goes out with, as what its turn keeps of it and as NAME@VERSION.
  std::optional<session::log::TurnPrompt> prompt = {};
  std::string prompt_label = {};
  BlockHash kv_block = {};  // the last one of its KV on this machine's disk; 0: none
  // What the answer says besides what was answered; null: nothing.
  std::shared_ptr<const session::compaction::Insertion> inserted = {};
  // A stored response as a turn of its session; null: it is none.
  std::shared_ptr<session::SessionTurn> kept = {};
};

// Notes the prompt that the request goes out with.
void NotePrompt(session::log::TurnPrompt prompt, AnswerNotes& notes);

class RequestContext {
 public:
  using Clock = SteadyClock;
  // The environment and the sink must outlive it. A request of the gateway's own is made in the
  // name of a `caller` that is known; null: the head tells who it is.
  RequestContext(Environment& environment, ResponseSink& sink, RequestHead head,
                 std::shared_ptr<const Targets> targets, const Caller* caller = nullptr);
  RequestContext(const RequestContext&) = delete;
  RequestContext& operator=(const RequestContext&) = delete;

  Environment& environment() const { return environment_; }
  ResponseSink& sink() const { return sink_; }
  const Targets& targets() const { return *targets_; }
  const RequestHead& head() const { return head_; }
  std::string_view Header(std::string_view name) const {
    return upstream::wire::FindHeader(head_.fields, name);
  }
  const upstream::PathKind& kind() const { return kind_; }
  Caller& caller() { return caller_; }
  const Caller& caller() const { return caller_; }
  work::WorkRunner& work() { return work_; }
  RoutePlace& place() { return place_; }
  const RoutePlace& place() const { return place_; }

  RequestBody& body() { return body_; }
  // Reads the model and other fields from the body. The second call returns at once.
  Task<Result<void>> Scan();
  const upstream::BodyScan& scan() const { return body_.scan(); }
  // The model that the path or the body names. REQUIRES: Scan.
  const std::string& model() const {
    return place_.argument_is_model() ? place_.argument : scan().model;
  }
  // Recognizes the prompt. The second call returns at once. REQUIRES: Scan.
  Task<Result<service::Prompts::Known>> Recognize();
  // Of the received body, if the prompt has been read; else null.
  const prompt::parse::RequestLayout* layout() const { return layout_.get(); }

  // Counts the request against the limits of the caller's key; an error if it exceeds them.
  Result<void> Admit(std::string_view model);
  // Counts a request with a prompt, and checks the size of that.
  Task<Result<void>> CheckPrompt(std::string model);

  // Puts another body in the place of the received one: what its session makes of it. All that was
  // read from that is forgotten. Fails if there is no memory for it.
  Result<void> ReplaceBody(std::string body);
  // What the head of the answer says of this request.
  AnswerNotes& notes() { return notes_; }
  ReplyInfo Info() const;
  // Counts an answer of this status in the metrics.
  void Count(int status);
  // Sends a whole answer in the caller's dialect. Returns false if the client is gone.
  Task<bool> Reply(Response response);
  // Sends an error in the caller's dialect.
  Task<bool> Refuse(Error error);

 private:
  Environment& environment_;
  ResponseSink& sink_;
  const std::string target_;  // without a key that stood in the query; empty: as received
  const std::shared_ptr<const Targets> targets_;
  RequestHead head_;
  const upstream::PathKind kind_;
  Caller caller_;
  work::WorkRunner work_;
  RoutePlace place_;
  RequestBody body_;
  service::Prompts::Layout layout_;  // null: the prompt has not been read, or cannot be
  std::optional<service::Prompts::Known> known_;
  AnswerNotes notes_;
};

// True if the caller wants its answer explained.
inline bool Explains(const RequestContext& request) {
  return request.Header("x-kvgate-explain") == "1";
}
// True if the gateway has to read the answer, which must come without a content-encoding.
inline bool ReadsAnswer(RequestContext& request) {
  return Explains(request) || !request.notes().compaction.empty();
}

// Counts a request about the gateway's own data, whose body names no model, against the limits of
// the caller's key; an error if it exceeds them.
Result<void> AdmitOwnData(RequestContext& request);

// Ends a request whose work is no longer waited for, because its client has left or the server
// wants answers to end.
Task<void> GiveUp(RequestContext& request);

// A target of Gemini's API with another model in its path.
std::string WithModel(std::string_view target, std::string_view model);
// The path of a target, without scheme, host, query and fragment.
std::string_view PathOf(std::string_view target);

}  // namespace kvgate::proxy::request
