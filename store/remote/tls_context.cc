#include "store/remote/tls_context.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <cstdint>

#include "base/openssl_check.h"
#include "base/regular_file.h"
#include "store/remote/resp_url.h"

namespace kvgate::store::remote {
namespace {

constexpr uint64_t kCaFileBytesMax = 16 << 20;

Error NoCertificates(std::string_view why) {
  return MakeError(ErrorCode::kInvalidArgument, "store.remote", fmt::format("ca_file {}", why),
                   "ca_file");
}

}  // namespace

Result<std::unique_ptr<TlsContext>> TlsContext::Make(const std::string& ca_file) {
  ERR_clear_error();
  SSL_CTX* const context = SSL_CTX_new(TLS_client_method());
  RequireOpenssl(context != nullptr, "SSL_CTX_new");
  std::unique_ptr<TlsContext> made(new TlsContext(context));
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  // Releasing the buffers saves 32 KiB for each idle connection.
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  if (ca_file.empty()) {
    RequireOpenssl(SSL_CTX_set_default_verify_paths(context) == 1, "the default verify paths");
    return made;
  }
  if (const auto file = CheckRegularFile(ca_file, {.bytes_max = kCaFileBytesMax}); !file) {
    return NoCertificates(file.error().detail);
  }
  if (SSL_CTX_load_verify_file(context, ca_file.c_str()) != 1) {
    const char* const why = ERR_reason_error_string(ERR_peek_last_error());
    ERR_clear_error();
    return NoCertificates(
        fmt::format("{} holds no certificates ({})", ca_file, why == nullptr ? "unknown" : why));
  }
  return made;
}

TlsContext::~TlsContext() { SSL_CTX_free(context_); }

ssl_st* TlsContext::MakeSession(const std::string& host) const {
  ERR_clear_error();
  SSL* const session = SSL_new(context_);
  RequireOpenssl(session != nullptr, "SSL_new");
  X509_VERIFY_PARAM* const checks = SSL_get0_param(session);
  bool is_set = false;
  if (IsIpAddress(host)) {
    is_set = X509_VERIFY_PARAM_set1_ip_asc(checks, host.c_str()) == 1;
  } else {
    X509_VERIFY_PARAM_set_hostflags(checks, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    is_set = X509_VERIFY_PARAM_set1_host(checks, host.c_str(), host.size()) == 1 &&
             SSL_set_tlsext_host_name(session, host.c_str()) == 1;
  }
  if (is_set) return session;
  SSL_free(session);
  ERR_clear_error();
  return nullptr;
}

std::string TlsContext::Refusal(ssl_st* session) {
  const long verdict = SSL_get_verify_result(session);  // NOLINT(google-runtime-int): OpenSSL's
  return verdict == X509_V_OK ? "" : X509_verify_cert_error_string(verdict);
}

}  // namespace kvgate::store::remote
