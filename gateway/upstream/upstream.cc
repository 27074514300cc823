#include "gateway/upstream/upstream.h"

#include <fmt/format.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/write.hpp>

#include "base/log.h"
#include "base/regular_file.h"
#include "gateway/upstream/body_scan.h"

namespace kvgate::upstream {

using dialect::form::Api;
using dialect::form::Endpoint;
using wire::Channel;
using wire::kAwait;
using wire::Task;

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

// A proxy's answer to CONNECT has a status line and a few headers.
constexpr size_t kProxyHeadBytesMax = 16 * 1024;
// The roots of a whole system take a quarter of a megabyte.
constexpr uint64_t kCaFileBytesMax = uint64_t{16} << 20;

bool IsAddress(const std::string& host) {
  boost::system::error_code code;
  asio::ip::make_address(host, code);
  return !code;
}

std::string HostOf(const config::Url& url) {
  return url.host.find(':') == std::string::npos ? url.host : fmt::format("[{}]", url.host);
}

std::string Authority(const config::Url& url) {
  return fmt::format("{}:{}", HostOf(url), url.port);
}

// The index under which OpenSSL's callback finds its upstream.
int ContextIndex() {
  static const int index = SSL_CTX_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return index;
}

}  // namespace

std::string GuessProvider(std::string_view host, Api dialect) {
  static constexpr std::pair<std::string_view, std::string_view> kHosts[] = {
      {"api.openai.com", "openai"},
      {"api.anthropic.com", "anthropic"},
      {"api.deepseek.com", "deepseek"},
      {"api.x.ai", "xai"},
      {"openrouter.ai", "openrouter"},
      {"api.mistral.ai", "mistral"},
      {"api.moonshot.ai", "moonshot"},
      {"api.fireworks.ai", "fireworks"},
      {"generativelanguage.googleapis.com", "gemini"}};
  for (const auto& [known, provider] : kHosts) {
    if (host == known) return std::string(provider);
  }
  return std::string(dialect::form::ApiName(dialect));
}

Result<std::unique_ptr<Upstream>> Upstream::Open(const config::UpstreamConfig& config,
                                                 const wire::Environment& environment,
                                                 const wire::MakeDialer& make_dialer) {
  std::unique_ptr<Upstream> upstream(new Upstream(config));
  const auto named = [&](Error error) {
    error.detail = fmt::format("upstream '{}': {}", config.name, error.detail);
    return error;
  };
  auto url = config::ParseUrl(config.base_url);
  if (!url) return named(url.error());
  upstream->url_ = std::move(*url);
  upstream->dialect_ = config.dialect == "anthropic" ? Api::kAnthropic
                       : config.dialect == "gemini"  ? Api::kGemini
                                                     : Api::kOpenAi;
  upstream->provider_ = config.provider.empty()
                            ? GuessProvider(upstream->url_.host, upstream->dialect_)
                            : config.provider;
  const bool own_port = upstream->url_.port == (upstream->url_.tls ? 443 : 80);
  upstream->host_ = own_port ? HostOf(upstream->url_) : Authority(upstream->url_);
  if (!config.api_key_env.empty()) {
    upstream->api_key_ = environment(config.api_key_env.c_str());
    // A line break in the key would end its header.
    const bool usable = std::all_of(upstream->api_key_.begin(), upstream->api_key_.end(),
                                    [](unsigned char c) { return c > ' ' && c != 0x7f; });
    if (upstream->api_key_.empty() || !usable) {
      return named(
          MakeError(ErrorCode::kInvalidArgument, "upstream",
                    fmt::format("the environment variable {} (api_key_env) {}", config.api_key_env,
                                usable ? "is not set" : "holds spaces or control characters")));
    }
  }
  auto proxy = wire::FindProxy(upstream->url_, environment);
  if (!proxy) return named(proxy.error());
  upstream->proxy_ = std::move(*proxy);
  upstream->dialer_ =
      upstream->proxy_ ? make_dialer({upstream->proxy_->host, upstream->proxy_->port, "its proxy"})
                       : make_dialer({upstream->url_.host, upstream->url_.port});
  if (auto opened = upstream->OpenTls(); !opened) return named(opened.error());
  return upstream;
}

Result<void> Upstream::OpenTls() {
  if (!url_.tls) return {};
  boost::system::error_code code;
  tls_.emplace(asio::ssl::context::tls_client);
  SSL_CTX* context = tls_->native_handle();
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  // Releasing the buffers saves 32 KiB for each idle connection.
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
  SSL_CTX_set_ex_data(context, ContextIndex(), this);
  SSL_CTX_sess_set_new_cb(context, KeepSession);
  static constexpr unsigned char kProtocols[] = "\x08http/1.1";
  SSL_CTX_set_alpn_protos(context, kProtocols, sizeof(kProtocols) - 1);
  tls_->set_verify_mode(asio::ssl::verify_peer, code);
  if (config_.ca_file.empty()) {
    tls_->set_default_verify_paths(code);
  } else {
    if (const auto file = CheckRegularFile(config_.ca_file, {.bytes_max = kCaFileBytesMax});
        !file) {
      return MakeError(ErrorCode::kInvalidArgument, "upstream",
                       fmt::format("ca_file {}", file.error().detail));
    }
    tls_->load_verify_file(config_.ca_file, code);
  }
  if (code) {
    return MakeError(ErrorCode::kInvalidArgument, "upstream",
                     fmt::format("ca_file {}: {}", config_.ca_file, code.message()));
  }
  return {};
}

int Upstream::KeepSession(SSL* ssl, SSL_SESSION* session) {
  auto* self = static_cast<Upstream*>(SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), ContextIndex()));
  // Keeps a copy, because OpenSSL marks the connection's own session as not resumable if the
  // connection ends without a close_notify, as most do.
  SSL_SESSION* copy = SSL_SESSION_dup(session);
  const std::lock_guard lock(self->mutex_);
  self->session_ = {copy, SSL_SESSION_free};
  return 0;  // 0: `session` stays the connection's
}

bool Upstream::Serves(std::string_view model) const {
  return std::any_of(config_.models.begin(), config_.models.end(),
                     [&](const std::string& glob) { return GlobMatches(glob, model); });
}

bool Upstream::Has(Endpoint endpoint) const {
  const bool anthropic = dialect_ == Api::kAnthropic;
  const bool openai = dialect_ == Api::kOpenAi;
  const auto configured = [this](std::string_view name) {
    return std::find(config_.endpoints.begin(), config_.endpoints.end(), name) !=
           config_.endpoints.end();
  };
  switch (endpoint) {
    case Endpoint::kChatCompletions:
      return openai && configured("chat");
    case Endpoint::kResponses:
      return openai && configured("responses");
    case Endpoint::kMessages:
    case Endpoint::kCountTokens:
      return anthropic;
    case Endpoint::kGenerateContent:
    case Endpoint::kCountContent:
      return dialect_ == Api::kGemini;
    case Endpoint::kCompletions:
    case Endpoint::kEmbeddings:
      return dialect_ != Api::kGemini;
    default:
      return true;
  }
}

// --- the pool ---------------------------------------------------------------------------------

Upstream::Pool& Upstream::PoolOf(asio::execution_context& context) {
  for (Pool& pool : pools_) {
    if (pool.context == &context) return pool;
  }
  return pools_.emplace_back(Pool{.context = &context});
}

std::unique_ptr<Channel> Upstream::TakeKept(const Executor& executor) {
  asio::execution_context& context = asio::query(executor, asio::execution::context);
  const auto oldest = Clock::now() - std::chrono::seconds(config_.keep_alive_seconds);
  std::vector<Kept> dropped;  // closed after the lock is released
  while (true) {
    Kept last;
    {
      const std::lock_guard lock(mutex_);
      std::vector<Kept>& kept = PoolOf(context).kept;
      const auto fresh = std::find_if(kept.begin(), kept.end(),
                                      [&](const Kept& one) { return one.since >= oldest; });
      std::move(kept.begin(), fresh, std::back_inserter(dropped));
      kept.erase(kept.begin(), fresh);
      if (kept.empty()) return nullptr;
      last = std::move(kept.back());
      kept.pop_back();
    }
    if (last.channel->IsQuiet()) return std::move(last.channel);
    dropped.push_back(std::move(last));
  }
}

bool Upstream::Reserve() {
  if (in_use_.fetch_add(1) < config_.connections) return true;
  Release();
  return false;
}

void Upstream::Release() { in_use_.fetch_sub(1); }

void Upstream::Keep(std::unique_ptr<Channel> channel) {
  if (config_.keep_alive_seconds == 0) return;
  asio::execution_context& context = asio::query(channel->get_executor(), asio::execution::context);
  const std::lock_guard lock(mutex_);
  PoolOf(context).kept.push_back({.channel = std::move(channel), .since = Clock::now()});
}

size_t Upstream::num_kept() const {
  const std::lock_guard lock(mutex_);
  size_t count = 0;
  for (const Pool& pool : pools_) count += pool.kept.size();
  return count;
}

// --- connecting -------------------------------------------------------------------------------

Error Upstream::Failure(std::string_view what, std::string_view why) const {
  return MakeError(ErrorCode::kUnavailable, "upstream", fmt::format("{}: {}", what, why));
}

Task<Result<void>> Upstream::Connect(Channel& channel) {
  const auto deadline = Clock::now() + std::chrono::milliseconds(config_.connect_timeout_ms);
  Result<void> done = co_await dialer_->Dial(channel, deadline);
  if (done && proxy_) done = co_await Tunnel(channel);
  if (done && tls_) done = co_await Handshake(channel);
  co_return done;
}

// Opens the tunnel with CONNECT. It must not read beyond the proxy's answer, because what follows
// is the upstream's handshake.
Task<Result<void>> Upstream::Tunnel(Channel& channel) {
  const std::string authority = Authority(url_);
  std::string head = fmt::format("CONNECT {} HTTP/1.1\r\nHost: {}\r\n", authority, authority);
  if (!proxy_->authorization.empty()) {
    head += fmt::format("Proxy-Authorization: {}\r\n", proxy_->authorization);
  }
  head += "\r\n";
  auto [write_code, written] =
      co_await asio::async_write(channel.socket(), asio::buffer(head), kAwait);
  if (write_code) co_return Failure("its proxy", write_code.message());
  std::string answer;
  auto [read_code, size] = co_await asio::async_read_until(
      channel.socket(), asio::dynamic_buffer(answer, kProxyHeadBytesMax), "\r\n\r\n", kAwait);
  if (read_code) co_return Failure("its proxy did not answer", read_code.message());
  if (answer.size() < 12 || !answer.starts_with("HTTP/1.") || answer.substr(8, 2) != " 2") {
    co_return Failure("its proxy refused the tunnel", answer.substr(0, answer.find('\r')));
  }
  // A TLS server speaks only after the client's hello.
  if (answer.size() != size) co_return Failure("its proxy", "bytes came before the handshake");
  co_return Result<void>();
}

Task<Result<void>> Upstream::Handshake(Channel& channel) {
  asio::ssl::stream<tcp::socket&>& tls = channel.StartTls(*tls_);
  boost::system::error_code code;
  tls.set_verify_callback(asio::ssl::host_name_verification(url_.host), code);
  if (!code && !IsAddress(url_.host) &&
      SSL_set_tlsext_host_name(tls.native_handle(), url_.host.c_str()) != 1) {
    co_return Failure("its TLS handshake", "the host name cannot be sent");
  }
  {
    const std::lock_guard lock(mutex_);
    if (session_) SSL_set_session(tls.native_handle(), session_.get());
  }
  auto [failed] = co_await tls.async_handshake(asio::ssl::stream_base::client, kAwait);
  if (failed) {
    const long verdict = SSL_get_verify_result(tls.native_handle());
    const std::string why =
        verdict == X509_V_OK
            ? failed.message()
            : fmt::format("{} ({})", failed.message(), X509_verify_cert_error_string(verdict));
    co_return Failure("its TLS handshake failed", why);
  }
  co_return Result<void>();
}

}  // namespace kvgate::upstream
