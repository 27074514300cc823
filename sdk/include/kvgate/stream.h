// Stream: an answer on its way, event by event: by range-for, by Next, by co_await NextAsync, or
// whole by Collect.
#pragma once

#include <coroutine>
#include <cstddef>
#include <iterator>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include <kvgate/chat.h>

namespace kvgate {
inline namespace v1 {

namespace detail {

struct Free {
  void operator()(kvgate_stream* stream) const { kvgate_stream_free(stream); }
  void operator()(kvgate_response* response) const { kvgate_response_free(response); }
  void operator()(kvgate_cancel* cancel) const { kvgate_cancel_free(cancel); }
};

// A stop_token, as the C interface takes one.
class Stop {
 public:
  explicit Stop(const std::stop_token& token) {
    if (!token.stop_possible()) return;
    cancel_.reset(kvgate_cancel_new());
    if (cancel_ == nullptr) return;
    callback_.emplace(token, Trigger{cancel_.get()});
  }
  kvgate_cancel* get() const { return cancel_.get(); }

 private:
  struct Trigger {
    kvgate_cancel* cancel;
    void operator()() const { kvgate_cancel_trigger(cancel); }
  };
  std::unique_ptr<kvgate_cancel, Free> cancel_;
  std::optional<std::stop_callback<Trigger>> callback_;
};

inline std::vector<kvgate_header> Headers(const CallOptions& options) {
  std::vector<kvgate_header> headers;
  for (const auto& [name, value] : options.headers) {
    headers.push_back({name.c_str(), value.c_str()});
  }
  return headers;
}

inline kvgate_call_options ToOptions(const CallOptions& options, const Stop& stop,
                                     const std::vector<kvgate_header>& headers) {
  return {.struct_size = sizeof(kvgate_call_options),
          .timeout_ms = static_cast<uint32_t>(options.timeout.count()),
          .cancel = stop.get(),
          .headers = headers.data(),
          .num_headers = headers.size()};
}

}  // namespace detail

// It may be moved; one thread at a time. Its end cancels the answer if that is under way.
class Stream {
 public:
  // An answer that could not begin.
  explicit Stream(Error error) : error_(std::move(error)) {}
  // Owns a stream of the C interface, and keeps what it stands on.
  Stream(std::shared_ptr<kvgate_client> client, kvgate_stream* stream,
         std::unique_ptr<detail::Stop> stop)
      : client_(std::move(client)), stop_(std::move(stop)), stream_(stream) {}

  // Waits for the next event; nullopt at the end, which status() explains.
  std::optional<Event> Next() {
    if (stream_ == nullptr || is_ended_) return std::nullopt;
    kvgate_event event{};
    event.struct_size = sizeof event;
    kvgate_error* error = nullptr;
    const kvgate_status status = kvgate_stream_next(stream_.get(), &event, &error);
    return Take(status, event, error);
  }

  // Why there are no more events: nothing, or what went wrong.
  Result<void> status() const { return error_ ? Result<void>(*error_) : Result<void>(); }

  // Reads the rest into one reply; what was read before is missing in it.
  Result<Reply> Collect() {
    Reply reply;
    while (std::optional<Event> event = Next()) Add(*std::move(event), reply);
    if (error_) return *error_;
    reply.request_id = Header("x-kvgate-request-id");
    return reply;
  }

  // A header of the answer, once an event has come: "x-kvgate-request-id"; empty: there is none.
  std::string Header(const char* name) const {
    const char* value = stream_ == nullptr ? nullptr : kvgate_stream_header(stream_.get(), name);
    return value == nullptr ? "" : value;
  }

  // An input iterator: `for (const Event& event : stream)`.
  class Iterator {
   public:
    using value_type = Event;
    using difference_type = std::ptrdiff_t;
    explicit Iterator(Stream& stream) : stream_(&stream) { ++*this; }
    const Event& operator*() const { return *event_; }
    const Event* operator->() const { return &*event_; }
    Iterator& operator++() {
      event_ = stream_->Next();
      return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const Iterator& iterator, std::default_sentinel_t) {
      return !iterator.event_.has_value();
    }

   private:
    Stream* stream_;
    std::optional<Event> event_;
  };
  // Waits for the first event; to be called once.
  Iterator begin() { return Iterator(*this); }
  // There are no more events; status() says why.
  static std::default_sentinel_t end() { return {}; }

  // `co_await stream.NextAsync()` is Next without a thread that waits. The coroutine goes on on a
  // thread of the library and must not wait there; it may destroy the stream.
  auto NextAsync() {
    struct Awaiter {
      Stream& stream;
      std::optional<Event> event = {};

      bool await_ready() { return stream.TryNext(event); }
      void await_suspend(std::coroutine_handle<> handle) {
        kvgate_stream_on_ready(stream.stream_.get(), Resume, handle.address());
      }
      std::optional<Event> await_resume() {
        if (!event) stream.TryNext(event);
        return std::move(event);
      }
      static void Resume(void* address) { std::coroutine_handle<>::from_address(address).resume(); }
    };
    return Awaiter{*this};
  }

 private:
  // False: nothing has come yet.
  bool TryNext(std::optional<Event>& next) {
    if (stream_ == nullptr || is_ended_) return true;
    kvgate_event event{};
    event.struct_size = sizeof event;
    kvgate_error* error = nullptr;
    const kvgate_status status = kvgate_stream_try_next(stream_.get(), &event, &error);
    if (status == KVGATE_AGAIN) return false;
    next = Take(status, event, error);
    return true;
  }

  std::optional<Event> Take(kvgate_status status, const kvgate_event& event, kvgate_error* error) {
    if (status != KVGATE_OK) {
      is_ended_ = true;
      if (status != KVGATE_END) error_ = detail::TakeError(status, error);
      return std::nullopt;
    }
    Event taken{.kind = static_cast<Event::Kind>(event.kind),
                .text = std::string(event.text, event.text_size),
                .choice = event.choice,
                .tool_index = event.tool_index,
                .usage = {.prompt_tokens = event.prompt_tokens,
                          .cached_tokens = event.cached_tokens,
                          .cache_write_tokens = event.cache_write_tokens,
                          .output_tokens = event.output_tokens,
                          .reasoning_tokens = event.reasoning_tokens}};
    if (taken.kind == Event::Kind::kToolDelta || taken.kind == Event::Kind::kToolCall) {
      taken.tool_call = {.id = event.tool_id, .name = event.tool_name, .arguments = taken.text};
    }
    return taken;
  }

  static void Add(Event event, Reply& reply) {
    switch (event.kind) {
      case Event::Kind::kText:
        if (event.choice == 0) reply.text += event.text;
        break;
      case Event::Kind::kReasoning:
        if (event.choice == 0) reply.reasoning += event.text;
        break;
      case Event::Kind::kToolDelta:
        break;
      case Event::Kind::kToolCall:
        if (event.choice == 0) reply.tool_calls.push_back(std::move(event.tool_call));
        break;
      case Event::Kind::kFinish:
        if (event.choice == 0) reply.finish_reason = std::move(event.text);
        break;
      case Event::Kind::kUsage:
        reply.usage = event.usage;
        break;
      case Event::Kind::kExplain:
        reply.explanation = Json(std::move(event.text));
        break;
    }
  }

  std::shared_ptr<kvgate_client> client_;
  std::unique_ptr<detail::Stop> stop_;
  std::unique_ptr<kvgate_stream, detail::Free> stream_;
  bool is_ended_ = false;
  std::optional<Error> error_;
};

}  // namespace v1
}  // namespace kvgate
