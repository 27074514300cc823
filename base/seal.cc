#include "base/seal.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <bitset>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/digest.h"

#include "base/base64.h"
#include "base/hex.h"
#include "base/openssl_check.h"

namespace kvgate {
namespace {

constexpr std::string_view kSource = "seal";
constexpr uint8_t kVersion = 1;
constexpr size_t kKeyIdBytes = 8;
constexpr size_t kNonceBytes = 12;
constexpr size_t kTagBytes = 16;
constexpr size_t kHeadBytes = 1 + kKeyIdBytes;
// 32 random bytes have fewer distinct values than this once in 10^12 times; words and repeated
// digits nearly always have.
constexpr size_t kDifferentBytesMin = 16;
constexpr std::string_view kHkdfSalt = "kvgate.seal.1";

const unsigned char* Bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}
unsigned char* Bytes(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }
std::string_view AsText(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// 32 bytes that are overwritten on destruction.
class Key {
 public:
  Key() = default;
  ~Key() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }
  Key(const Key&) = default;
  Key& operator=(const Key&) = default;
  uint8_t* data() { return bytes_.data(); }
  std::string_view text() const { return AsText(bytes_); }

 private:
  Keyring::Secret bytes_{};
};

void Hmac(std::string_view key, std::string_view text, uint8_t* out) {
  unsigned int size = 0;
  RequireOpenssl(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), Bytes(text),
                      text.size(), out, &size) != nullptr &&
                     size == 32,
                 "HMAC-SHA256");
}

// The extract step of HKDF (RFC 5869).
Key Extract(std::string_view secret) {
  Key key;
  Hmac(kHkdfSalt, secret, key.data());
  return key;
}

// The expand step for 32 bytes.
Key Expand(const Key& extracted, std::string_view info) {
  Key key;
  std::string text(info);
  text += '\x01';
  Hmac(extracted.text(), text, key.data());
  return key;
}

void AppendSized(std::string& out, std::string_view text) {
  const auto size = static_cast<uint64_t>(text.size());
  for (int shift = 0; shift < 64; shift += 8) out += static_cast<char>(size >> shift);
  out += text;
}

std::string AssociatedData(std::string_view head, const Keyring::Place& place) {
  std::string out(head);
  AppendSized(out, place.purpose);
  AppendSized(out, place.tenant);
  AppendSized(out, place.name);
  return out;
}

// One cipher per thread, because making a context and fetching the cipher cost more than a short
// text.
struct Cipher {
  std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)> owned_context{
      EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free};
  std::unique_ptr<EVP_CIPHER, decltype(&EVP_CIPHER_free)> owned_algorithm{
      EVP_CIPHER_fetch(nullptr, "AES-256-GCM", nullptr), EVP_CIPHER_free};
  EVP_CIPHER_CTX* const context = owned_context.get();
  EVP_CIPHER* const algorithm = owned_algorithm.get();
  Cipher() { RequireOpenssl(context != nullptr && algorithm != nullptr, "OpenSSL has no AES-GCM"); }
  Cipher(const Cipher&) = delete;
  Cipher& operator=(const Cipher&) = delete;
};

Cipher& ThreadCipher() {
  thread_local Cipher cipher;
  return cipher;
}

// EVP takes sizes as int, so a longer text is passed in parts.
constexpr size_t kUpdateBytesMax = size_t{1} << 30;

template <typename Update>
bool InParts(size_t bytes, const Update& update) {
  for (size_t at = 0; at < bytes;) {
    const size_t part = std::min(bytes - at, kUpdateBytesMax);
    if (!update(at, static_cast<int>(part))) return false;
    at += part;
  }
  return true;
}

std::optional<std::string> FromHex(std::string_view text) {
  std::string out;
  if (text.size() % 2 != 0) return std::nullopt;
  out.reserve(text.size() / 2);
  for (size_t i = 0; i < text.size(); i += 2) {
    const int high = HexDigit(text[i]);
    const int low = HexDigit(text[i + 1]);
    if (high < 0 || low < 0) {
      Wipe(out);
      return std::nullopt;
    }
    out += static_cast<char>(high << 4 | low);
  }
  return out;
}

std::optional<std::string> FromBase64(std::string_view text) {
  for (int i = 0; i < 2 && text.ends_with('='); ++i) text.remove_suffix(1);
  std::string out;
  if (DecodeBase64(text, out, Base64Alphabet::kEither) < text.size()) {
    Wipe(out);
    return std::nullopt;
  }
  return out;
}

bool LooksRandom(std::string_view secret) {
  std::bitset<256> seen;
  for (const char c : secret) seen.set(static_cast<unsigned char>(c));
  return seen.count() >= kDifferentBytesMin;
}

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return "";
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

void FillRandom(unsigned char* out, size_t size) {
  RequireOpenssl(RAND_bytes(out, static_cast<int>(size)) == 1, "the system has no random bytes");
}

}  // namespace

void Wipe(std::string& text) {
  OPENSSL_cleanse(text.data(), text.size());
  text.clear();
}

struct Keyring::Impl {
  struct Entry {
    Key extracted;  // HKDF's first step, computed once; the secret itself is not kept
    KeyId id{};
  };

  std::string source;
  std::vector<Entry> entries;  // the first one seals
  size_t num_own = 0;          // those after them only open
  mutable std::mutex mutex;
  // Keys by entry and purpose, each computed once. Purposes are constants, so there are few.
  mutable std::map<std::pair<size_t, std::string>, Key> keys;

  void Add(std::string_view secret) {
    Entry entry{.extracted = Extract(secret)};
    const Key id = Expand(entry.extracted, "key id");
    std::memcpy(entry.id.data(), id.text().data(), entry.id.size());
    entries.push_back(entry);
  }
  const Entry* Find(const KeyId& id) const {
    const auto found = std::ranges::find(entries, id, &Entry::id);
    return found == entries.end() ? nullptr : &*found;
  }
  Key KeyOf(size_t entry, std::string_view kind, std::string_view purpose) const {
    std::string info(kind);
    info += purpose;
    const std::lock_guard lock(mutex);
    auto found = keys.find({entry, info});
    if (found == keys.end()) {
      Key key = Expand(entries[entry].extracted, info);
      found = keys.emplace(std::pair(entry, std::move(info)), key).first;
    }
    return found->second;
  }
};

Keyring::Keyring(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Keyring::~Keyring() = default;

Result<std::unique_ptr<Keyring>> Keyring::Parse(std::string_view text, std::string_view source) {
  const auto refuse = [&](std::string_view what) {
    return MakeError(ErrorCode::kInvalidArgument, kSource,
                     fmt::format("{}: {}; a secret is at least {} random bytes in hex or base64, "
                                 "as `openssl rand -hex 32` prints them",
                                 source, what, kSecretBytesMin));
  };
  if (text.size() > kTextBytesMax) {
    return refuse(fmt::format("{} bytes; the limit is {}", text.size(), kTextBytesMax));
  }
  auto impl = std::make_unique<Impl>();
  impl->source = source;
  for (size_t at = 0, number = 1; at <= text.size();) {
    const size_t end = std::min(text.find_first_of(",\n", at), text.size());
    const std::string_view part = Trim(text.substr(at, end - at));
    at = end + 1;
    // A comment may contain commas.
    if (part.starts_with('#')) at = std::min(text.find('\n', end), text.size()) + 1;
    if (part.empty() || part.starts_with('#')) continue;
    std::optional<std::string> secret = FromHex(part);
    if (!secret) secret = FromBase64(part);
    std::string_view wrong;
    if (!secret) {
      wrong = "is neither hex nor base64";
    } else if (secret->size() < kSecretBytesMin) {
      wrong = "is too short";
    } else if (secret->size() > kSecretBytesMax) {
      wrong = "is too long";
    } else if (!LooksRandom(*secret)) {
      wrong = "is not random";
    } else if (impl->entries.size() == kSecretsMax) {
      wrong = "is one too many: a ring has at most 16";
    } else {
      impl->Add(*secret);
      const KeyId id = impl->entries.back().id;
      if (impl->Find(id) != &impl->entries.back()) wrong = "stands there twice";
    }
    if (secret) Wipe(*secret);
    if (!wrong.empty()) return refuse(fmt::format("secret {} {}", number, wrong));
    ++number;
  }
  if (impl->entries.empty()) return refuse("it holds no secret");
  impl->num_own = impl->entries.size();
  return std::unique_ptr<Keyring>(new Keyring(std::move(impl)));
}

std::unique_ptr<Keyring> Keyring::Generate() {
  std::string secret = GenerateSecret();
  auto ring = Parse(secret, "a secret of this process");
  Wipe(secret);
  KVGATE_CHECK(ring.has_value(), "a generated secret is refused");
  return std::move(*ring);
}

std::string Keyring::GenerateSecret() {
  Key key;
  std::string hex;
  do {
    FillRandom(key.data(), kSecretBytesMin);
  } while (!LooksRandom(key.text()));
  const std::string_view bytes = key.text();
  hex = ToHex(std::span(Bytes(bytes), bytes.size()));
  return hex;
}

const std::string& Keyring::source() const { return impl_->source; }

void Keyring::AddForOpening(const Keyring& other) {
  for (const Impl::Entry& entry : other.impl_->entries) {
    if (!Has(entry.id)) impl_->entries.push_back(entry);
  }
}

std::string Keyring::Seal(const Place& place, std::string_view plain) const {
  const Key key = impl_->KeyOf(0, "seal ", place.purpose);
  std::string out;
  out.resize(kOverheadBytes + plain.size());
  out[0] = static_cast<char>(kVersion);
  std::memcpy(out.data() + 1, impl_->entries[0].id.data(), kKeyIdBytes);
  unsigned char* const nonce = Bytes(out) + kHeadBytes;
  FillRandom(nonce, kNonceBytes);
  const std::string associated = AssociatedData(std::string_view(out).substr(0, kHeadBytes), place);
  unsigned char* const body = nonce + kNonceBytes;
  const Cipher& cipher = ThreadCipher();
  int size = 0;
  const bool done = EVP_EncryptInit_ex2(cipher.context, cipher.algorithm, Bytes(key.text()), nonce,
                                        nullptr) == 1 &&
                    EVP_EncryptUpdate(cipher.context, nullptr, &size, Bytes(associated),
                                      static_cast<int>(associated.size())) == 1 &&
                    InParts(plain.size(),
                            [&](size_t at, int bytes) {
                              return EVP_EncryptUpdate(cipher.context, body + at, &size,
                                                       Bytes(plain) + at, bytes) == 1;
                            }) &&
                    EVP_EncryptFinal_ex(cipher.context, body + plain.size(), &size) == 1 &&
                    EVP_CIPHER_CTX_ctrl(cipher.context, EVP_CTRL_GCM_GET_TAG, kTagBytes,
                                        body + plain.size()) == 1;
  RequireOpenssl(done, "AES-256-GCM");
  return out;
}

Result<std::string> Keyring::Open(const Place& place, std::string_view sealed) const {
  const auto damaged = [&](std::string_view what) {
    return MakeError(ErrorCode::kDataLoss, kSource,
                     fmt::format("sealed {} of {} bytes: {}", place.purpose, sealed.size(), what));
  };
  if (sealed.size() < kOverheadBytes) return damaged("it is cut short");
  if (static_cast<uint8_t>(sealed[0]) != kVersion) {
    return MakeError(ErrorCode::kUnsupported, kSource,
                     fmt::format("sealed {} of version {}; this program knows {}", place.purpose,
                                 static_cast<uint8_t>(sealed[0]), kVersion));
  }
  KeyId id;
  std::memcpy(id.data(), sealed.data() + 1, kKeyIdBytes);
  const Impl::Entry* const entry = impl_->Find(id);
  if (entry == nullptr) {
    return MakeError(ErrorCode::kPermissionDenied, kSource,
                     fmt::format("sealed {}: sealed with the secret {}, which {} has not",
                                 place.purpose, ToHex(id), impl_->source));
  }
  const Key key =
      impl_->KeyOf(static_cast<size_t>(entry - impl_->entries.data()), "seal ", place.purpose);
  const unsigned char* const nonce = Bytes(sealed) + kHeadBytes;
  const unsigned char* const body = nonce + kNonceBytes;
  const std::string associated = AssociatedData(sealed.substr(0, kHeadBytes), place);
  std::string plain(sealed.size() - kOverheadBytes, '\0');
  std::array<unsigned char, kTagBytes> tag;
  std::memcpy(tag.data(), body + plain.size(), kTagBytes);
  const Cipher& cipher = ThreadCipher();
  int size = 0;
  const bool done =
      EVP_DecryptInit_ex2(cipher.context, cipher.algorithm, Bytes(key.text()), nonce, nullptr) ==
          1 &&
      EVP_DecryptUpdate(cipher.context, nullptr, &size, Bytes(associated),
                        static_cast<int>(associated.size())) == 1 &&
      InParts(plain.size(),
              [&](size_t at, int bytes) {
                return EVP_DecryptUpdate(cipher.context, Bytes(plain) + at, &size, body + at,
                                         bytes) == 1;
              }) &&
      EVP_CIPHER_CTX_ctrl(cipher.context, EVP_CTRL_GCM_SET_TAG, kTagBytes, tag.data()) == 1;
  RequireOpenssl(done, "AES-256-GCM");
  if (EVP_DecryptFinal_ex(cipher.context, Bytes(plain) + plain.size(), &size) != 1) {
    Wipe(plain);
    return damaged("it is damaged, or belongs somewhere else");
  }
  return plain;
}

Keyring::Secret Keyring::Derive(std::string_view purpose, std::string_view name) const {
  const Key key = impl_->KeyOf(impl_->num_own - 1, "derive ", purpose);
  Secret out;
  Hmac(key.text(), name, out.data());
  return out;
}

Keyring::KeyId Keyring::sealing_key_id() const { return impl_->entries.front().id; }

Keyring::KeyId Keyring::deriving_key_id() const { return impl_->entries[impl_->num_own - 1].id; }

bool Keyring::Knows(std::string_view sealed) const {
  if (sealed.size() < kOverheadBytes || static_cast<uint8_t>(sealed[0]) != kVersion) return false;
  KeyId id;
  std::memcpy(id.data(), sealed.data() + 1, kKeyIdBytes);
  return Has(id);
}

bool Keyring::Has(const KeyId& id) const { return impl_->Find(id) != nullptr; }

}  // namespace kvgate
