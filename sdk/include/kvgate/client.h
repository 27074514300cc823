// Client: kvgate from C++: a gateway in this process (Open), or a server (Connect). Everything else
// is the same for both.
//
//   auto client = kvgate::Client::Open({.model = "model.gguf"});
//   if (!client) return Fail(client.error());
//   for (const kvgate::Event& event : client->Chat({.messages = {kvgate::Message::User("Hi")}})) {
//     if (event.is_text()) std::cout << event.text << std::flush;
//   }
//
// A client may be used by any number of threads at once. A copy is the same client, which is closed
// when the last copy, stream, session and server of it is gone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <kvgate/stream.h>
#include <kvgate/toolbox.h>

namespace kvgate {
inline namespace v1 {

class Session;

// How a server is reached.
struct ConnectOptions {
  std::string api_key = {};                      // sent as "Authorization: Bearer"; empty: none
  std::string ca_file = {};                      // PEM, for https; empty: the system's
  std::chrono::milliseconds connect_timeout{0};  // 0: 10 s
  int retries = 2;                               // of requests that no server has begun with
};

// A provider that requests are forwarded to; a table [[upstream]] of the configuration.
struct Upstream {
  std::string name;                         // unique
  std::string base_url;                     // with /v1, or without for "anthropic"
  std::string dialect = "openai";           // or "anthropic"
  std::string api_key_env = {};             // the variable with its key; empty: the caller's key
  std::vector<std::string> models = {"*"};  // globs; the first upstream with a match is asked
  std::string mode = "pin";                 // observe, pin, stabilize
};

// Who is asked for these models, in which order; a table [[route]].
struct Route {
  std::vector<std::string> models;         // globs
  std::vector<std::string> targets;        // "local", "upstream" or "upstream/model"
  std::vector<std::string> fallback = {};  // asked where none of the targets answers
};

// A gateway in this process.
struct OpenOptions {
  std::string config_file = {};  // kvgate.toml
  std::string config_toml = {};  // or the same as text
  std::string model = {};        // a GGUF file; empty: as configured
  std::string data_dir = {};     // empty: as configured
  std::string api_key = {};      // of a [[key]], or for providers that get the caller's
  bool needs_disk = false;       // Open fails where the data directory cannot be used
  // In addition to those of config_toml; not beside a config_file.
  std::vector<Upstream> upstreams = {};
  std::vector<Route> routes = {};  // the same
  // Called every 20 ms while a model loads, on the thread of Open.
  std::function<void()> while_loading = {};
};

namespace detail {

// A text is the same in TOML and in JSON, and so is a list of texts.
inline std::string ToToml(const std::vector<Upstream>& upstreams) {
  std::string toml;
  for (const Upstream& upstream : upstreams) {
    toml += "\n[[upstream]]\nname = " + Quote(upstream.name) +
            "\nbase_url = " + Quote(upstream.base_url) + "\ndialect = " + Quote(upstream.dialect) +
            "\nmodels = " + ToJsonList(upstream.models) + "\nmode = " + Quote(upstream.mode) + "\n";
    if (!upstream.api_key_env.empty()) {
      toml += "api_key_env = " + Quote(upstream.api_key_env) + "\n";
    }
  }
  return toml;
}

inline std::string ToToml(const std::vector<Route>& routes) {
  std::string toml;
  for (const Route& route : routes) {
    toml += "\n[[route]]\nmodels = " + ToJsonList(route.models) +
            "\ntargets = " + ToJsonList(route.targets) + "\n";
    if (!route.fallback.empty()) toml += "fallback = " + ToJsonList(route.fallback) + "\n";
  }
  return toml;
}

}  // namespace detail

// An answer of the HTTP interface.
struct Answer {
  int http_status = 0;    // 200, or another 2xx
  std::string body = {};  // JSON, of most paths
  // The body, to be looked into.
  Json json() const { return Json(body); }
};

// A gateway in this process, or a way to a server.
class Client {
 public:
  // Makes a client of a server, "http://127.0.0.1:8080". Nothing is sent yet. Fails with
  // kInvalidArgument for an address or a file that cannot be used.
  static Result<Client> Connect(const std::string& url, const ConnectOptions& options = {}) {
    kvgate_connect_options given{};
    given.struct_size = sizeof given;
    given.url = url.c_str();
    given.api_key = OrNull(options.api_key);
    given.ca_file = OrNull(options.ca_file);
    given.connect_timeout_ms = static_cast<uint32_t>(options.connect_timeout.count());
    given.retries = static_cast<uint32_t>(options.retries);
    given.no_retries = options.retries <= 0 ? 1 : 0;
    kvgate_client* client = nullptr;
    kvgate_error* error = nullptr;
    const kvgate_status status = kvgate_connect(&given, &client, &error);
    if (status != KVGATE_OK) return detail::TakeError(status, error);
    return Client(client);
  }

  // Makes a gateway in this process; it takes as long as its model needs to load. See kvgate_open
  // for what it fails with.
  static Result<Client> Open(const OpenOptions& options = {}) {
    kvgate_open_options given{};
    given.struct_size = sizeof given;
    given.config_file = OrNull(options.config_file);
    const std::string config_toml =
        options.config_toml + detail::ToToml(options.upstreams) + detail::ToToml(options.routes);
    given.config_toml = OrNull(config_toml);
    given.model = OrNull(options.model);
    given.data_dir = OrNull(options.data_dir);
    given.api_key = OrNull(options.api_key);
    given.needs_disk = options.needs_disk ? 1 : 0;
    std::function<void()> loading = options.while_loading;
    if (loading) {
      given.while_loading = [](void* user) { (*static_cast<std::function<void()>*>(user))(); };
      given.user = &loading;
    }
    kvgate_client* client = nullptr;
    kvgate_error* error = nullptr;
    const kvgate_status status = kvgate_open(&given, &client, &error);
    if (status != KVGATE_OK) return detail::TakeError(status, error);
    return Client(client);
  }

  // Begins a chat. What goes wrong is the stream's to say.
  Stream Chat(const ChatRequest& request) const {
    const std::string body = ToJson(request);
    CallOptions options = request.options;
    if (request.explain) options.headers.emplace_back("x-kvgate-explain", "1");
    auto stop = std::make_unique<detail::Stop>(options.stop);
    const std::vector<kvgate_header> headers = detail::Headers(options);
    const kvgate_call_options given = detail::ToOptions(options, *stop, headers);
    kvgate_stream* stream = nullptr;
    kvgate_error* error = nullptr;
    const kvgate_status status =
        kvgate_chat(client_.get(), body.data(), body.size(), &given, &stream, &error);
    if (status != KVGATE_OK) return Stream(detail::TakeError(status, error));
    return Stream(client_, stream, std::move(stop));
  }

  // The answer to one prompt, as plain text.
  Result<std::string> Generate(std::string prompt, ChatRequest request = {}) const {
    request.messages.push_back(Message::User(std::move(prompt)));
    Result<Reply> reply = Chat(request).Collect();
    if (!reply) return reply.error();
    return std::move(reply->text);
  }

  // A chat in which the model calls these tools, as long as it wants to but for at most `max_steps`
  // answers. The request's messages grow by what was said and done; the last answer is returned. A
  // tool that fails tells the model why. A tool_choice that requires a call holds for the first
  // answer only, since otherwise no answer could be the last one.
  Result<Reply> Run(ChatRequest& request, const Toolbox& tools, int max_steps = 8) const {
    const std::string tool_choice = request.tool_choice;
    for (const Tool& tool : tools.tools()) request.tools.push_back(tool);
    Result<Reply> reply = Chat(request).Collect();
    for (int step = 1; reply; ++step) {
      request.messages.push_back(reply->ToMessage());
      if (reply->tool_calls.empty() || step >= max_steps) break;
      for (const ToolCall& call : reply->tool_calls) {
        request.messages.push_back(Message::ToolResult(call.id, tools.Call(call)));
      }
      if (tool_choice != "none") request.tool_choice.clear();
      reply = Chat(request).Collect();
    }
    request.tools.resize(request.tools.size() - tools.tools().size());
    request.tool_choice = tool_choice;
    return reply;
  }

  // A conversation that the gateway keeps under this key.
  kvgate::Session Session(std::string key, ChatRequest base = {}) const;

  // Any request of the HTTP interface: "GET", "/kvgate/v1/stats".
  Result<Answer> Call(const std::string& method, const std::string& path,
                      std::string_view body = {}, const CallOptions& options = {}) const {
    const detail::Stop stop(options.stop);
    const std::vector<kvgate_header> headers = detail::Headers(options);
    const kvgate_call_options given = detail::ToOptions(options, stop, headers);
    kvgate_response* response = nullptr;
    kvgate_error* error = nullptr;
    const kvgate_status status = kvgate_call(client_.get(), method.c_str(), path.c_str(),
                                             body.data(), body.size(), &given, &response, &error);
    if (status != KVGATE_OK) return detail::TakeError(status, error);
    const std::unique_ptr<kvgate_response, detail::Free> owned(response);
    size_t size = 0;
    const char* text = kvgate_response_body(response, &size);
    return Answer{.http_status = kvgate_response_http_status(response),
                  .body = std::string(text, size)};
  }

  // The tokens of a request's prompt.
  Result<int64_t> CountTokens(const ChatRequest& request) const {
    Result<Answer> counted = Call("POST", "/v1/responses/input_tokens",
                                  detail::ToInputTokensJson(request), request.options);
    if (!counted) return counted.error();
    return counted->json().Int("/input_tokens");
  }
  // One vector a text, from a model that makes them.
  Result<std::vector<std::vector<float>>> Embeddings(const std::string& model,
                                                     const std::vector<std::string>& texts,
                                                     const CallOptions& options = {}) const {
    const std::string body =
        R"({"model":)" + Quote(model) + R"(,"input":)" + detail::ToJsonList(texts) + "}";
    Result<Answer> made = Call("POST", "/v1/embeddings", body, options);
    if (!made) return made.error();
    std::vector<std::vector<float>> vectors;
    for (size_t i = 0; i < texts.size(); ++i) {
      const std::string pointer = "/data/" + std::to_string(i) + "/embedding";
      Result<std::string> vector = made->json().At(pointer);
      if (!vector) return vector.error();
      vectors.push_back(detail::ToFloats(*vector));
    }
    return vectors;
  }
  // Computes a prompt ahead, so that requests that begin with it find it in the cache.
  Result<Json> Warm(const ChatRequest& request) const {
    return ToJsonResult(Call("POST", "/kvgate/v1/prefixes/warm", WarmBody(request, ""), {}));
  }
  // Computes it and keeps it under a name until it is unpinned.
  Result<Json> Pin(const std::string& name, const ChatRequest& request) const {
    return ToJsonResult(Call("POST", "/kvgate/v1/prefixes/warm", WarmBody(request, name), {}));
  }
  // What would be done with a request, without sending it.
  Result<Json> Explain(const ChatRequest& request) const {
    return ToJsonResult(Call("POST", "/kvgate/v1/explain", ToJson(request), request.options));
  }
  // What was cached, what was not, what it cost.
  Result<Json> Stats() const { return ToJsonResult(Call("GET", "/kvgate/v1/stats")); }

  // For what only the C interface has.
  const std::shared_ptr<kvgate_client>& shared() const { return client_; }

 private:
  explicit Client(kvgate_client* client) : client_(client, kvgate_close) {}
  static const char* OrNull(const std::string& text) {
    return text.empty() ? nullptr : text.c_str();
  }
  static Result<Json> ToJsonResult(Result<Answer> answer) {
    if (!answer) return answer.error();
    return Json(std::move(answer->body));
  }
  static std::string WarmBody(const ChatRequest& request, const std::string& pin) {
    std::string body = ToJson(request);
    if (pin.empty()) return body;
    body.back() = ',';
    return body + R"("kvgate":{"name":)" + Quote(pin) + "}}";
  }

  std::shared_ptr<kvgate_client> client_;
};

}  // namespace v1
}  // namespace kvgate
