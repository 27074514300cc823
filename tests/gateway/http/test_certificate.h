// TestCertificate makes self-signed certificates on the spot, and TlsClient is a blocking client
// that speaks TLS.
#pragma once

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "tests/base/temp_folder.h"

namespace kvgate::test {

// Lies in its own folder, which the destructor removes.
class TestCertificate {
 public:
  // Makes a certificate valid from `from` to `until`, in seconds relative to the present.
  explicit TestCertificate(long from = -60, long until = 3600) {
    EVP_PKEY* key = EVP_EC_gen("P-256");
    X509* certificate = X509_new();
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), from);
    X509_gmtime_adj(X509_getm_notAfter(certificate), until);
    X509_set_pubkey(certificate, key);
    X509_NAME* subject = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
    X509_set_issuer_name(certificate, subject);
    X509_sign(certificate, key, EVP_sha256());
    std::FILE* file = std::fopen(cert_file().c_str(), "w");
    PEM_write_X509(file, certificate);
    std::fclose(file);
    file = std::fopen(key_file().c_str(), "w");
    PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr);
    std::fclose(file);
    std::filesystem::permissions(
        key_file(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    X509_free(certificate);
    EVP_PKEY_free(key);
  }

  std::string cert_file() const { return (folder_ / "cert.pem").string(); }
  std::string key_file() const { return (folder_ / "key.pem").string(); }

 private:
  TempFolder folder_;
};

// TlsClient speaks TLS over a connected socket, which it does not own.
class TlsClient {
 public:
  // `session` is resumed if it is not null.
  explicit TlsClient(int fd, SSL_SESSION* session = nullptr)
      : context_(SSL_CTX_new(TLS_client_method())), ssl_(SSL_new(context_)) {
    SSL_set_fd(ssl_, fd);
    if (session != nullptr) SSL_set_session(ssl_, session);
    connected_ = SSL_connect(ssl_) == 1;
  }
  ~TlsClient() {
    // The client leaves without a close notification, but not as a failure, which would make the
    // session unfit for resumption.
    SSL_set_quiet_shutdown(ssl_, 1);
    SSL_shutdown(ssl_);
    SSL_free(ssl_);
    SSL_CTX_free(context_);
    ERR_clear_error();
  }
  TlsClient(const TlsClient&) = delete;
  TlsClient& operator=(const TlsClient&) = delete;

  bool connected() const { return connected_; }
  bool resumed() const { return SSL_session_reused(ssl_) == 1; }
  // The caller frees the session.
  SSL_SESSION* session() const { return SSL_get1_session(ssl_); }
  bool Send(std::string_view bytes) {
    return SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size())) > 0;
  }
  // Reads until `mark` has come or the connection ends.
  std::string ReadUntil(std::string_view mark) {
    std::string text;
    char bytes[16384];
    while (mark.empty() || text.find(mark) == std::string::npos) {
      const int size = SSL_read(ssl_, bytes, sizeof(bytes));
      if (size <= 0) break;
      text.append(bytes, static_cast<size_t>(size));
    }
    return text;
  }
  // Returns true if the server has announced the end of its data.
  bool ended_well() const { return (SSL_get_shutdown(ssl_) & SSL_RECEIVED_SHUTDOWN) != 0; }

 private:
  SSL_CTX* context_;
  SSL* ssl_;
  bool connected_ = false;
};

}  // namespace kvgate::test
