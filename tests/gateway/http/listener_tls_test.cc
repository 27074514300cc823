#include "gateway/http/listener_tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/gateway/http/test_certificate.h"

namespace kvgate::http {
namespace {

using ::testing::HasSubstr;
using testing::TestCertificate;

Error Problem(const ListenerTls::Options& options) {
  const auto opened = ListenerTls::Open(options);
  EXPECT_FALSE(opened);
  return opened ? Error{} : opened.error();
}

TEST(ListenerTlsTest, NoFilesMeanNoTls) {
  const auto opened = ListenerTls::Open({});
  ASSERT_TRUE(opened);
  EXPECT_EQ(*opened, nullptr);
}

TEST(ListenerTlsTest, ACertificateAndItsKeyOpenAndAreKnownByTheirDigest) {
  const TestCertificate one;
  const TestCertificate other;
  const auto first = ListenerTls::Open({.cert_file = one.cert_file(), .key_file = one.key_file()});
  const auto again = ListenerTls::Open(
      {.cert_file = one.cert_file(), .key_file = one.key_file(), .min_version = "1.3"});
  const auto second =
      ListenerTls::Open({.cert_file = other.cert_file(), .key_file = other.key_file()});
  ASSERT_TRUE(first && again && second);
  EXPECT_EQ((*first)->certificate_sha256().size(), 64u);
  EXPECT_EQ((*first)->certificate_sha256(), (*again)->certificate_sha256());
  EXPECT_NE((*first)->certificate_sha256(), (*second)->certificate_sha256());
  EXPECT_EQ(SSL_CTX_get_min_proto_version((*first)->context()), TLS1_2_VERSION);
  EXPECT_EQ(SSL_CTX_get_min_proto_version((*again)->context()), TLS1_3_VERSION);
}

TEST(ListenerTlsTest, EachProblemNamesTheKeyOfTheConfigurationAndTheFile) {
  const TestCertificate good;
  const TestCertificate other;
  const TestCertificate expired(-3600, -60);
  const TestCertificate early(3600, 7200);
  const auto check = [](const ListenerTls::Options& options, std::string_view key,
                        std::string_view words) {
    const Error error = Problem(options);
    EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.detail, HasSubstr(std::string(key) + ": "));
    EXPECT_THAT(error.detail, HasSubstr(std::string(words)));
  };
  check({.cert_file = good.cert_file(), .key_file = ""}, "server.tls_key", "missing");
  check({.cert_file = "", .key_file = good.key_file()}, "server.tls_cert", "missing");
  check({.cert_file = "/nowhere.pem", .key_file = good.key_file()}, "server.tls_cert",
        "/nowhere.pem cannot be read");
  check({.cert_file = good.cert_file(), .key_file = other.key_file()}, "server.tls_key",
        "is not that of the certificate");
  check({.cert_file = expired.cert_file(), .key_file = expired.key_file()}, "server.tls_cert",
        "expired on ");
  check({.cert_file = early.cert_file(), .key_file = early.key_file()}, "server.tls_cert",
        "not valid before ");
  std::ofstream(good.key_file(), std::ios::trunc) << "-----BEGIN PRIVATE KEY-----\nnonsense\n";
  check({.cert_file = good.cert_file(), .key_file = good.key_file()}, "server.tls_key",
        "no unencrypted PEM private key");
  std::ofstream(good.cert_file(), std::ios::trunc) << "hello";
  check({.cert_file = good.cert_file(), .key_file = other.key_file()}, "server.tls_cert",
        "no PEM certificate");
}

}  // namespace
}  // namespace kvgate::http
