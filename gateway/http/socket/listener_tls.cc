#include "gateway/http/socket/listener_tls.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/digest.h"
#include "base/regular_file.h"

namespace kvgate::http::socket {
namespace {

constexpr std::string_view kCertKey = "server.tls_cert";
constexpr std::string_view kKeyKey = "server.tls_key";
// Length-prefixed, as ALPN encodes it.
constexpr unsigned char kProtocols[] = "\x08http/1.1";
// For TLS 1.2 only; all ciphers of TLS 1.3 have forward secrecy and are authenticated.
constexpr const char* kCiphers = "ECDHE+AESGCM:ECDHE+CHACHA20";

Error Wrong(std::string_view key, std::string_view what) {
  return MakeError(ErrorCode::kInvalidArgument, "tls", fmt::format("{}: {}", key, what),
                   std::string(key));
}

// Returns the reason of the oldest error in this thread's OpenSSL queue and clears the queue.
std::string TakeReason() {
  const char* reason = ERR_reason_error_string(ERR_get_error());
  ERR_clear_error();
  return reason == nullptr ? "unknown error" : reason;
}

// Checked here, because OpenSSL's message for a missing file names its own source file, and opening
// a pipe would block.
Result<void> CheckReadable(std::string_view key, const std::string& path) {
  const Result<std::string> text = ReadRegularFile(path);
  if (!text) return Wrong(key, fmt::format("{} cannot be read: {}", path, text.error().detail));
  if (text->empty()) return Wrong(key, fmt::format("{} cannot be read: it is empty", path));
  return {};
}

// Applies PostgreSQL's rule: a key belongs to its owner alone, but one that root owns may be
// readable by a group, as those of ssl-cert are. A key that everybody on the machine can read is no
// secret any more, so this refuses instead of warning, as ssh does.
Result<void> CheckPrivate(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    return Wrong(kKeyKey, fmt::format("{}: {}", path, std::strerror(errno)));
  }
  const mode_t mode = info.st_mode & 07777;
  const mode_t forbidden = info.st_uid == 0 ? 037 : 077;
  if ((mode & forbidden) == 0) return {};
  return Wrong(kKeyKey, fmt::format("{} has mode {:04o}, and a private key is its owner's alone: "
                                    "chmod 600 it (640 where root owns it)",
                                    path, mode));
}

std::string TimeText(const ASN1_TIME* time) {
  BIO* memory = BIO_new(BIO_s_mem());
  ASN1_TIME_print(memory, time);
  char* bytes = nullptr;
  const auto size = static_cast<size_t>(BIO_get_mem_data(memory, &bytes));
  std::string text(bytes, size);
  BIO_free(memory);
  return text;
}

// Refuses a client that offers only other protocols; one that offers none gets HTTP/1.1.
int SelectProtocol(SSL*, const unsigned char** out, unsigned char* out_size,
                   const unsigned char* in, unsigned in_size, void*) {
  unsigned char* chosen = nullptr;
  const int found =
      SSL_select_next_proto(&chosen, out_size, kProtocols, sizeof(kProtocols) - 1, in, in_size);
  *out = chosen;
  return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

// There is nobody to type a password.
int RefusePassword(char*, int, int, void*) { return -1; }

}  // namespace

std::string CertificateSha256(const X509* certificate) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  X509_digest(certificate, EVP_sha256(), digest.data(), &size);
  return ToHex({digest.data(), size});
}

void ListenerTls::Free::operator()(ssl_ctx_st* context) const { SSL_CTX_free(context); }

Result<std::unique_ptr<ListenerTls>> ListenerTls::Open(const Options& options) {
  if (options.cert_file.empty() && options.key_file.empty()) return std::unique_ptr<ListenerTls>();
  if (options.cert_file.empty()) return Wrong(kCertKey, "missing; server.tls_key needs it");
  if (options.key_file.empty()) return Wrong(kKeyKey, "missing; server.tls_cert needs it");
  std::unique_ptr<ListenerTls> tls(new ListenerTls(SSL_CTX_new(TLS_server_method())));
  if (tls->context() == nullptr) return Wrong(kCertKey, TakeReason());
  KVGATE_TRY_VOID(tls->SetRules(options));
  KVGATE_TRY_VOID(tls->LoadCertificate(options));
  KVGATE_TRY_VOID(tls->LoadKey(options));
  return tls;
}

Result<void> ListenerTls::SetRules(const Options& options) {
  SSL_CTX* context = context_.get();
  SSL_CTX_set_min_proto_version(context,
                                options.min_version == "1.3" ? TLS1_3_VERSION : TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
                                   SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
  // Releasing the buffers saves 32 KiB for each idle connection.
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  // Sessions live in tickets, so clients cannot make server memory grow.
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_alpn_select_cb(context, SelectProtocol, nullptr);
  SSL_CTX_set_default_passwd_cb(context, RefusePassword);
  if (SSL_CTX_set_cipher_list(context, kCiphers) != 1) return Wrong(kCertKey, TakeReason());
  return {};
}

Result<void> ListenerTls::LoadCertificate(const Options& options) {
  KVGATE_TRY_VOID(CheckReadable(kCertKey, options.cert_file));
  ERR_clear_error();
  if (SSL_CTX_use_certificate_chain_file(context_.get(), options.cert_file.c_str()) != 1) {
    return Wrong(kCertKey, fmt::format("{} holds no PEM certificate that can be used: {}",
                                       options.cert_file, TakeReason()));
  }
  const X509* certificate = SSL_CTX_get0_certificate(context_.get());
  if (X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0) {
    return Wrong(kCertKey, fmt::format("the certificate in {} expired on {}", options.cert_file,
                                       TimeText(X509_get0_notAfter(certificate))));
  }
  if (X509_cmp_current_time(X509_get0_notBefore(certificate)) > 0) {
    return Wrong(kCertKey,
                 fmt::format("the certificate in {} is not valid before {}", options.cert_file,
                             TimeText(X509_get0_notBefore(certificate))));
  }
  certificate_sha256_ = CertificateSha256(certificate);
  return {};
}

Result<void> ListenerTls::LoadKey(const Options& options) {
  KVGATE_TRY_VOID(CheckReadable(kKeyKey, options.key_file));
  ERR_clear_error();
  // This also compares the key with the certificate, but reports a mismatch only by a reason code.
  if (SSL_CTX_use_PrivateKey_file(context_.get(), options.key_file.c_str(), SSL_FILETYPE_PEM) !=
      1) {
    const int reason = ERR_GET_REASON(ERR_peek_error());
    const bool other = ERR_GET_LIB(ERR_peek_error()) == ERR_LIB_X509 &&
                       (reason == X509_R_KEY_VALUES_MISMATCH || reason == X509_R_KEY_TYPE_MISMATCH);
    const std::string why = TakeReason();
    if (other) {
      return Wrong(kKeyKey, fmt::format("the key in {} is not that of the certificate in {}",
                                        options.key_file, options.cert_file));
    }
    return Wrong(kKeyKey,
                 fmt::format("{} holds no unencrypted PEM private key: {}", options.key_file, why));
  }
  if (SSL_CTX_check_private_key(context_.get()) != 1) {
    ERR_clear_error();
    return Wrong(kKeyKey, fmt::format("the key in {} is not that of the certificate in {}",
                                      options.key_file, options.cert_file));
  }
  return CheckPrivate(options.key_file);
}

}  // namespace kvgate::http::socket
