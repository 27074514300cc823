#include "gateway/http/socket/listener_tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "tests/gateway/http/test_certificate.h"

namespace kvgate::http::socket {
namespace {

using test::TestCertificate;
using ::testing::HasSubstr;

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

TEST(ListenerTlsTest, AKeyThatOthersCanReadIsRefused) {
  const TestCertificate good;
  const ListenerTls::Options options{.cert_file = good.cert_file(), .key_file = good.key_file()};
  for (const auto& [mode, is_refused] :
       {std::pair(0600, false), std::pair(0400, false), std::pair(0644, true),
        std::pair(0604, true), std::pair(0660, true), std::pair(0602, true)}) {
    ASSERT_EQ(::chmod(good.key_file().c_str(), static_cast<mode_t>(mode)), 0);
    const auto opened = ListenerTls::Open(options);
    EXPECT_EQ(!opened, is_refused) << std::oct << mode;
    if (opened) continue;
    EXPECT_THAT(opened.error().detail, HasSubstr("server.tls_key: "));
    EXPECT_THAT(opened.error().detail, HasSubstr("chmod 600"));
  }
  // A group may read a key file that root owns.
  ASSERT_EQ(::chmod(good.key_file().c_str(), 0640), 0);
  EXPECT_EQ(ListenerTls::Open(options).has_value(), ::geteuid() == 0);
}

TEST(ListenerTlsTest, APipeInPlaceOfAFileHoldsUpNobody) {
  const TestCertificate good;
  const std::string pipe = good.key_file() + ".pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(Problem({.cert_file = good.cert_file(), .key_file = pipe}).detail,
              HasSubstr("not a regular file"));
  EXPECT_THAT(Problem({.cert_file = pipe, .key_file = good.key_file()}).detail,
              HasSubstr("not a regular file"));
}

}  // namespace
}  // namespace kvgate::http::socket
