#include "store/remote/tls_context.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/store/remote/certificates.h"

namespace kvgate::store::remote {
namespace {

TEST(TlsContextTest, AFileWithoutCertificatesIsRefusedByItsName) {
  const TempFolder folder;
  const std::string empty = (folder / "empty.pem").string();
  const std::string text = (folder / "text.pem").string();
  std::ofstream(empty).close();
  std::ofstream(text) << "-----BEGIN CERTIFICATE-----\nno\n-----END CERTIFICATE-----\n";
  for (const std::string& path :
       {(folder / "missing.pem").string(), folder.path().string(), empty, text}) {
    const auto made = TlsContext::Make(path);
    ASSERT_FALSE(made) << path;
    EXPECT_EQ(made.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(made.error().field, "ca_file");
    EXPECT_NE(made.error().detail.find(path), std::string::npos) << made.error().detail;
  }
}

TEST(TlsContextTest, SessionsAreForNamesAndAddressesThatCertificatesCanHave) {
  const TestAuthority authority("DNS:localhost");
  const auto context = TlsContext::Make(authority.ca_file());
  ASSERT_TRUE(context) << context.error().ToString();
  for (const std::string& host :
       {std::string("store"), std::string("127.0.0.1"), std::string("::1")}) {
    SSL* const session = (*context)->MakeSession(host);
    ASSERT_NE(session, nullptr) << host;
    EXPECT_EQ(TlsContext::Refusal(session), "");
    // A name is sent to the server, which may have several; an address is not.
    EXPECT_EQ(SSL_get_servername(session, TLSEXT_NAMETYPE_host_name) != nullptr, host == "store");
    SSL_free(session);
  }
  EXPECT_EQ((*context)->MakeSession(std::string(300, 'a')), nullptr);
  EXPECT_EQ((*context)->MakeSession(std::string("a\0b", 3)), nullptr);
  EXPECT_TRUE(TlsContext::Make(""));
}

}  // namespace
}  // namespace kvgate::store::remote
