#include "base/digest.h"

#include <random>

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <xxhash.h>
#ifdef KVGATE_XXHASH_DISPATCH
#include <xxh_x86dispatch.h>  // the same hashes, with the widest registers that there are
#endif

#include "base/hex.h"
#include "base/openssl_check.h"

namespace kvgate {
namespace {

// The algorithm is fetched once, because a fetch per digest costs more than hashing a block of
// tokens; nothing frees it.
const EVP_MD* Algorithm() {
  static const EVP_MD* const algorithm = [] {
    const EVP_MD* const fetched = EVP_MD_fetch(nullptr, "SHA256", nullptr);
    RequireOpenssl(fetched != nullptr, "OpenSSL has no SHA-256");
    return fetched;
  }();
  return algorithm;
}

}  // namespace

std::pair<uint64_t, uint64_t> Xxh3(std::span<const std::byte> data, uint64_t seed) {
  const XXH128_hash_t hash = XXH3_128bits_withSeed(data.data(), data.size(), seed);
  return {hash.low64, hash.high64};
}

uint64_t RandomSeed() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

uint64_t SecretHash(std::string_view text) {
  static const uint64_t seed = RandomSeed();
  return Xxh3(std::as_bytes(std::span(text)), seed).first;
}

std::string ToHex(std::span<const uint8_t> bytes) {
  std::string hex;
  hex.reserve(2 * bytes.size());
  for (const uint8_t byte : bytes) {
    hex += kHexDigits[byte >> 4];
    hex += kHexDigits[byte & 15];
  }
  return hex;
}

struct Sha256::Impl {
  Impl() = default;
  ~Impl() { EVP_MD_CTX_free(context); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  EVP_MD_CTX* context = EVP_MD_CTX_new();
};

Sha256::Sha256() : impl_(std::make_unique<Impl>()) {
  RequireOpenssl(impl_->context != nullptr, "a context of SHA-256");
  RequireOpenssl(EVP_DigestInit_ex(impl_->context, Algorithm(), nullptr) == 1, "SHA-256 init");
}

Sha256::~Sha256() = default;

Sha256& Sha256::Update(std::span<const std::byte> data) {
  RequireOpenssl(EVP_DigestUpdate(impl_->context, data.data(), data.size()) == 1, "SHA-256 update");
  return *this;
}

Sha256& Sha256::Update(std::string_view text) {
  return Update(std::as_bytes(std::span(text.data(), text.size())));
}

PrefixDigest Sha256::Finish() {
  PrefixDigest digest;
  unsigned int size = 0;
  RequireOpenssl(EVP_DigestFinal_ex(impl_->context, digest.bytes.data(), &size) == 1 && size == 32,
                 "SHA-256 final");
  RequireOpenssl(EVP_DigestInit_ex(impl_->context, nullptr, nullptr) == 1, "SHA-256 init");
  return digest;
}

void Sha256::ContinueFrom(const Sha256& other) {
  RequireOpenssl(EVP_MD_CTX_copy_ex(impl_->context, other.impl_->context) == 1, "SHA-256 copy");
}

Sha256& ThreadSha256() {
  thread_local Sha256 sha;
  return sha;
}

PrefixDigest HmacSha256(std::string_view secret, std::string_view text) {
  PrefixDigest digest;
  unsigned int size = 0;
  RequireOpenssl(HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
                      reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                      digest.bytes.data(), &size) != nullptr &&
                     size == digest.bytes.size(),
                 "HMAC-SHA256");
  return digest;
}

}  // namespace kvgate
