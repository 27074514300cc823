// The C interface: each function checks what it is given, and lets nothing be thrown.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "gateway/upstream/wire/header_rules.h"
#include "sdk/include/kvgate.h"
#include "sdk/src/chat_stream.h"
#include "sdk/src/json_find.h"
#include "sdk/src/log_output.h"
#include "sdk/src/transport/cancel.h"
#include "sdk/src/transport/embedded.h"
#include "sdk/src/transport/exchange.h"
#include "sdk/src/transport/remote.h"

using kvgate::sdk::transport::Failure;

struct kvgate_error {
  Failure failure;
};
struct kvgate_cancel {
  std::shared_ptr<kvgate::sdk::transport::Cancel> flag;
};
struct kvgate_client {
  std::unique_ptr<kvgate::sdk::transport::Transport> transport;
};
struct kvgate_server {
  kvgate::sdk::transport::Transport& transport;
  std::string url;
};
struct kvgate_response {
  kvgate::sdk::transport::AnswerStart start;
  std::string body;
};
struct kvgate_stream {
  kvgate::sdk::ChatStream chat;
};

namespace {

using std::chrono::milliseconds;

kvgate_status Give(kvgate_error** error, Failure failure) {
  const kvgate_status status = failure.status;
  if (error != nullptr) *error = new (std::nothrow) kvgate_error{std::move(failure)};
  return status;
}

kvgate_status Refuse(kvgate_error** error, std::string message, std::string field) {
  return Give(error, {.status = KVGATE_INVALID_ARGUMENT,
                      .message = std::move(message),
                      .field = std::move(field)});
}

// Calls a function that returns a status, and makes one of what it throws.
template <typename Function>
kvgate_status Guard(kvgate_error** error, const Function& function) noexcept {
  try {
    try {
      return function();
    } catch (const std::bad_alloc&) {
      return Give(error, {.status = KVGATE_OVERLOADED, .message = "there is no memory left"});
    } catch (const std::exception& failure) {
      return Give(error, {.status = KVGATE_INTERNAL, .message = failure.what()});
    }
  } catch (...) {
    return KVGATE_INTERNAL;
  }
}

std::string TextOf(const char* text) { return text == nullptr ? "" : text; }

// True if the caller's struct has this field; a field that it lacks has its default.
#define KVGATE_HAS(options, field) \
  ((options)->struct_size >=       \
   offsetof(std::remove_cvref_t<decltype(*(options))>, field) + sizeof((options)->field))

bool IsHeaderText(std::string_view text) {
  return text.find_first_of(std::string_view("\r\n\0", 3)) == std::string_view::npos;
}

bool IsHeaderName(std::string_view name) {
  return !name.empty() && name.find_first_of("\r\n\t :()<>@,;\\\"/[]?={}") == name.npos &&
         IsHeaderText(name);
}

// What a call's options say; false: they are refused.
bool ReadOptions(const kvgate_call_options* options, kvgate::sdk::transport::Request& request,
                 std::shared_ptr<kvgate::sdk::transport::Cancel>& cancel, std::string& field) {
  if (options == nullptr) return true;
  if (KVGATE_HAS(options, timeout_ms)) request.timeout = milliseconds(options->timeout_ms);
  if (KVGATE_HAS(options, cancel) && options->cancel != nullptr) cancel = options->cancel->flag;
  if (!KVGATE_HAS(options, num_headers) || options->num_headers == 0) return true;
  field = "headers";
  if (options->headers == nullptr) return false;
  for (size_t i = 0; i < options->num_headers; ++i) {
    std::string name = TextOf(options->headers[i].name);
    std::string value = TextOf(options->headers[i].value);
    field = "headers[" + std::to_string(i) + "]";
    if (!IsHeaderName(name) || !IsHeaderText(value)) return false;
    request.headers.emplace_back(std::move(name), std::move(value));
  }
  return true;
}

bool IsPath(std::string_view path) {
  return path.starts_with('/') && path.find_first_of(" \t\r\n#") == std::string_view::npos;
}

}  // namespace

const char* kvgate_version(void) { return KVGATE_VERSION; }
uint32_t kvgate_abi_version(void) { return KVGATE_ABI_VERSION; }

const char* kvgate_status_name(kvgate_status status) {
  switch (status) {
    case KVGATE_OK:
      return "OK";
    case KVGATE_END:
      return "END";
    case KVGATE_AGAIN:
      return "AGAIN";
    case KVGATE_INVALID_ARGUMENT:
      return "INVALID_ARGUMENT";
    case KVGATE_UNAUTHENTICATED:
      return "UNAUTHENTICATED";
    case KVGATE_PERMISSION_DENIED:
      return "PERMISSION_DENIED";
    case KVGATE_NOT_FOUND:
      return "NOT_FOUND";
    case KVGATE_CONFLICT:
      return "CONFLICT";
    case KVGATE_TOO_LARGE:
      return "TOO_LARGE";
    case KVGATE_CONTEXT_EXCEEDED:
      return "CONTEXT_EXCEEDED";
    case KVGATE_RATE_LIMITED:
      return "RATE_LIMITED";
    case KVGATE_OVERLOADED:
      return "OVERLOADED";
    case KVGATE_UNAVAILABLE:
      return "UNAVAILABLE";
    case KVGATE_DEADLINE_EXCEEDED:
      return "DEADLINE_EXCEEDED";
    case KVGATE_CANCELLED:
      return "CANCELLED";
    case KVGATE_INTERNAL:
      return "INTERNAL";
  }
  return "UNKNOWN";
}

kvgate_status kvgate_error_status(const kvgate_error* error) { return error->failure.status; }
const char* kvgate_error_message(const kvgate_error* error) {
  return error->failure.message.c_str();
}
const char* kvgate_error_field(const kvgate_error* error) { return error->failure.field.c_str(); }
const char* kvgate_error_code(const kvgate_error* error) { return error->failure.code.c_str(); }
int32_t kvgate_error_http_status(const kvgate_error* error) { return error->failure.http_status; }
uint32_t kvgate_error_retry_after_ms(const kvgate_error* error) {
  return error->failure.retry_after_ms;
}
const char* kvgate_error_request_id(const kvgate_error* error) {
  return error->failure.request_id.c_str();
}
void kvgate_error_free(kvgate_error* error) { delete error; }

kvgate_cancel* kvgate_cancel_new(void) {
  kvgate_cancel* cancel = nullptr;
  Guard(nullptr, [&] {
    cancel = new kvgate_cancel{std::make_shared<kvgate::sdk::transport::Cancel>()};
    return KVGATE_OK;
  });
  return cancel;
}
void kvgate_cancel_trigger(kvgate_cancel* cancel) {
  Guard(nullptr, [&] {
    // The functions that are called may free it.
    const std::shared_ptr<kvgate::sdk::transport::Cancel> flag = cancel->flag;
    flag->Trigger();
    return KVGATE_OK;
  });
}
void kvgate_cancel_free(kvgate_cancel* cancel) { delete cancel; }

kvgate_status kvgate_connect(const kvgate_connect_options* options, kvgate_client** client,
                             kvgate_error** error) {
  return Guard(error, [&] {
    if (options == nullptr || client == nullptr) {
      return Refuse(error, "options and client are required", "options");
    }
    kvgate::sdk::LogOutput::Begin();
    kvgate::sdk::transport::RemoteOptions remote;
    if (KVGATE_HAS(options, url)) remote.url = TextOf(options->url);
    if (remote.url.empty()) return Refuse(error, "the address of the server is missing", "url");
    if (KVGATE_HAS(options, api_key)) remote.api_key = TextOf(options->api_key);
    if (!IsHeaderText(remote.api_key)) return Refuse(error, "a key is one line", "api_key");
    if (KVGATE_HAS(options, ca_file)) remote.ca_file = TextOf(options->ca_file);
    if (KVGATE_HAS(options, connect_timeout_ms) && options->connect_timeout_ms > 0) {
      remote.connect_timeout =
          milliseconds(std::min<uint32_t>(options->connect_timeout_ms, 24 * 3600 * 1000));
    }
    if (KVGATE_HAS(options, retries) && options->retries > 0) {
      remote.retries = static_cast<int>(std::min<uint32_t>(options->retries, 100));
    }
    if (KVGATE_HAS(options, no_retries) && options->no_retries != 0) remote.retries = 0;
    auto connected = kvgate::sdk::transport::ConnectRemote(remote);
    if (!connected) return Give(error, kvgate::sdk::transport::ToFailure(connected.error()));
    *client = new kvgate_client{std::move(*connected)};
    return KVGATE_OK;
  });
}

kvgate_status kvgate_open(const kvgate_open_options* options, kvgate_client** client,
                          kvgate_error** error) {
  return Guard(error, [&] {
    if (options == nullptr || client == nullptr) {
      return Refuse(error, "options and client are required", "options");
    }
    kvgate::sdk::LogOutput::Begin();
    kvgate::sdk::transport::EmbeddedOptions embedded;
    if (KVGATE_HAS(options, config_file)) embedded.config_file = TextOf(options->config_file);
    if (KVGATE_HAS(options, config_toml)) embedded.config_toml = TextOf(options->config_toml);
    if (KVGATE_HAS(options, model)) embedded.model = TextOf(options->model);
    if (KVGATE_HAS(options, data_dir)) embedded.data_dir = TextOf(options->data_dir);
    if (KVGATE_HAS(options, api_key)) embedded.api_key = TextOf(options->api_key);
    if (!IsHeaderText(embedded.api_key)) return Refuse(error, "a key is one line", "api_key");
    if (KVGATE_HAS(options, needs_disk)) embedded.needs_disk = options->needs_disk != 0;
    if (KVGATE_HAS(options, user) && options->while_loading != nullptr) {
      embedded.while_loading = [call = options->while_loading, user = options->user] {
        call(user);
      };
    }
    auto opened = kvgate::sdk::transport::OpenEmbedded(embedded);
    if (!opened) return Give(error, kvgate::sdk::transport::ToFailure(opened.error()));
    *client = new kvgate_client{std::move(*opened)};
    return KVGATE_OK;
  });
}

void kvgate_close(kvgate_client* client) { delete client; }

kvgate_status kvgate_call(kvgate_client* client, const char* method, const char* path,
                          const char* body, size_t body_size, const kvgate_call_options* options,
                          kvgate_response** response, kvgate_error** error) {
  return Guard(error, [&] {
    if (client == nullptr || response == nullptr || (body == nullptr && body_size > 0)) {
      return Refuse(error, "client, response and the body are required", "body");
    }
    kvgate::sdk::transport::Request request{.method = TextOf(method), .path = TextOf(path)};
    if (!IsHeaderName(request.method)) return Refuse(error, "it is no method", "method");
    if (!IsPath(request.path)) return Refuse(error, "a path begins with a slash", "path");
    std::shared_ptr<kvgate::sdk::transport::Cancel> cancel;
    std::string field;
    if (!ReadOptions(options, request, cancel, field)) {
      return Refuse(error, "it cannot be a header", field);
    }
    if (body_size > 0) request.body.assign(body, body_size);
    kvgate::sdk::transport::Exchange exchange(*client->transport, std::move(request), cancel);
    auto made = std::make_unique<kvgate_response>();
    if (!exchange.ReadAll(made->body)) return Give(error, exchange.failure());
    made->start = exchange.channel().start();
    *response = made.release();
    return KVGATE_OK;
  });
}

const char* kvgate_response_body(const kvgate_response* response, size_t* size) {
  if (size != nullptr) *size = response->body.size();
  return response->body.c_str();
}
const char* kvgate_response_header(const kvgate_response* response, const char* name) {
  const std::string* value = response->start.Header(name);
  return value == nullptr ? nullptr : value->c_str();
}
int32_t kvgate_response_http_status(const kvgate_response* response) {
  return response->start.status;
}
void kvgate_response_free(kvgate_response* response) { delete response; }

kvgate_status kvgate_chat(kvgate_client* client, const char* request, size_t request_size,
                          const kvgate_call_options* options, kvgate_stream** stream,
                          kvgate_error** error) {
  return Guard(error, [&] {
    if (client == nullptr || stream == nullptr || request == nullptr) {
      return Refuse(error, "client, request and stream are required", "request");
    }
    kvgate::sdk::transport::Request made{.method = "POST", .path = "/v1/chat/completions"};
    std::shared_ptr<kvgate::sdk::transport::Cancel> cancel;
    std::string field;
    if (!ReadOptions(options, made, cancel, field)) {
      return Refuse(error, "it cannot be a header", field);
    }
    made.body = kvgate::sdk::StreamedBody({request, request_size});
    *stream = new kvgate_stream{.chat{*client->transport, std::move(made), cancel}};
    return KVGATE_OK;
  });
}

namespace {

kvgate_status Next(kvgate_stream* stream, kvgate_event* event, bool may_wait,
                   kvgate_error** error) {
  return Guard(error, [&] {
    if (stream == nullptr || event == nullptr || event->struct_size < sizeof(size_t)) {
      return Refuse(error, "stream and an event with its struct_size are required", "event");
    }
    const kvgate_status status = stream->chat.Next(may_wait);
    if (status == KVGATE_END || status == KVGATE_AGAIN) return status;
    if (status != KVGATE_OK) return Give(error, stream->chat.failure());
    const kvgate::sdk::ChatEvent& read = stream->chat.event();
    const kvgate_event whole{.struct_size = event->struct_size,
                             .kind = read.kind,
                             .choice = read.choice,
                             .text = read.text.c_str(),
                             .text_size = read.text.size(),
                             .tool_index = read.tool_index,
                             .tool_id = read.tool_id.c_str(),
                             .tool_name = read.tool_name.c_str(),
                             .prompt_tokens = read.prompt_tokens,
                             .cached_tokens = read.cached_tokens,
                             .cache_write_tokens = read.cache_write_tokens,
                             .output_tokens = read.output_tokens,
                             .reasoning_tokens = read.reasoning_tokens};
    // An older program's struct ends earlier.
    std::memcpy(event, &whole, std::min(event->struct_size, sizeof(whole)));
    return KVGATE_OK;
  });
}

}  // namespace

kvgate_status kvgate_stream_next(kvgate_stream* stream, kvgate_event* event, kvgate_error** error) {
  return Next(stream, event, /*may_wait=*/true, error);
}
kvgate_status kvgate_stream_try_next(kvgate_stream* stream, kvgate_event* event,
                                     kvgate_error** error) {
  return Next(stream, event, /*may_wait=*/false, error);
}
void kvgate_stream_on_ready(kvgate_stream* stream, void (*ready)(void* user), void* user) {
  Guard(nullptr, [&] {
    stream->chat.OnReady(ready == nullptr ? std::function<void()>() : [=] { ready(user); });
    return KVGATE_OK;
  });
}
const char* kvgate_stream_header(const kvgate_stream* stream, const char* name) {
  const kvgate::sdk::transport::AnswerStart* start = stream->chat.start();
  const std::string* value = start == nullptr ? nullptr : start->Header(name);
  return value == nullptr ? nullptr : value->c_str();
}
void kvgate_stream_free(kvgate_stream* stream) { delete stream; }

kvgate_status kvgate_listen(kvgate_client* client, const char* address, kvgate_server** server,
                            kvgate_error** error) {
  return Guard(error, [&] {
    if (client == nullptr || server == nullptr) {
      return Refuse(error, "client and server are required", "client");
    }
    auto listening = client->transport->Listen(TextOf(address));
    if (!listening) return Give(error, kvgate::sdk::transport::ToFailure(listening.error()));
    *server = new kvgate_server{.transport = *client->transport, .url = std::move(*listening)};
    return KVGATE_OK;
  });
}
const char* kvgate_server_url(const kvgate_server* server) { return server->url.c_str(); }
void kvgate_server_close(kvgate_server* server, uint32_t drain_ms) {
  Guard(nullptr, [&] {
    if (server == nullptr) return KVGATE_OK;
    const std::unique_ptr<kvgate_server> owned(server);
    server->transport.StopListening(milliseconds(drain_ms));
    return KVGATE_OK;
  });
}

void kvgate_set_log(kvgate_log_level level,
                    void (*log)(void* user, kvgate_log_level level, const char* line), void* user) {
  Guard(nullptr, [&] {
    kvgate::sdk::LogOutput::Set(level, log, user);
    return KVGATE_OK;
  });
}

kvgate_status kvgate_json_find(const char* json, size_t size, const char* pointer,
                               kvgate_response** value, kvgate_error** error) {
  return Guard(error, [&] {
    if (json == nullptr || value == nullptr) {
      return Refuse(error, "json and value are required", "json");
    }
    auto made = std::make_unique<kvgate_response>();
    const auto failed = kvgate::sdk::FindInJson({json, size}, TextOf(pointer), made->body);
    if (failed) return Give(error, *failed);
    *value = made.release();
    return KVGATE_OK;
  });
}
