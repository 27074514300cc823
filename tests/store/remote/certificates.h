// TestAuthority: a certificate authority of one test, and a server's certificate that it signed.
#pragma once

#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <memory>
#include <string>

#include "tests/base/temp_folder.h"

namespace kvgate::store::remote {

class TestAuthority {
 public:
  // `names` are the server's, as OpenSSL writes them: "IP:127.0.0.1,DNS:localhost".
  explicit TestAuthority(const std::string& names) {
    const Key own_key(EVP_EC_gen("P-256"), EVP_PKEY_free);
    const Certificate own = Make("authority", own_key.get());
    Extend(own.get(), own.get(), NID_basic_constraints, "critical,CA:TRUE");
    Extend(own.get(), own.get(), NID_subject_key_identifier, "hash");
    Sign(own.get(), own.get(), own_key.get());
    const Key server_key(EVP_EC_gen("P-256"), EVP_PKEY_free);
    const Certificate server = Make("server", server_key.get());
    Extend(server.get(), own.get(), NID_subject_alt_name, names);
    Sign(server.get(), own.get(), own_key.get());
    Write(ca_file(), own.get());
    Write(cert_file(), server.get());
    std::FILE* const file = std::fopen(key_file().c_str(), "w");
    PEM_write_PrivateKey(file, server_key.get(), nullptr, nullptr, 0, nullptr, nullptr);
    std::fclose(file);
  }

  std::string ca_file() const { return (folder_ / "ca.pem").string(); }
  std::string cert_file() const { return (folder_ / "cert.pem").string(); }
  std::string key_file() const { return (folder_ / "key.pem").string(); }

 private:
  using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
  using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;

  static Certificate Make(const char* name, EVP_PKEY* key) {
    Certificate made(X509_new(), X509_free);
    X509_set_version(made.get(), 2);
    ASN1_INTEGER_set(X509_get_serialNumber(made.get()), 1);
    X509_gmtime_adj(X509_getm_notBefore(made.get()), -60);
    X509_gmtime_adj(X509_getm_notAfter(made.get()), 3600);
    X509_set_pubkey(made.get(), key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(made.get()), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name), -1, -1, 0);
    return made;
  }
  static void Extend(X509* certificate, X509* issuer, int kind, const std::string& value) {
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
    X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str());
    X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
  }
  static void Sign(X509* certificate, X509* issuer, EVP_PKEY* key) {
    X509_set_issuer_name(certificate, X509_get_subject_name(issuer));
    X509_sign(certificate, key, EVP_sha256());
  }
  static void Write(const std::string& path, X509* certificate) {
    std::FILE* const file = std::fopen(path.c_str(), "w");
    PEM_write_X509(file, certificate);
    std::fclose(file);
  }

  TempFolder folder_;
};

}  // namespace kvgate::store::remote
