// Keyring: the secrets of a data directory, or those that several machines share, and what is made
// of them: sealed bytes (authenticated encryption) and derived secrets (salts, names of rows).
//
// A ring has one secret or several. The first one seals; all of them open, so a secret is rotated
// by putting a new one in front. Derive uses the last one that is not marked as opening only: a new
// one in front changes nothing that was derived. Taking that last one away changes everything that
// was derived, so what is found by it has to be named, or computed, again.
//
// sealed = version:u8(1) key_id[8] nonce[12] ciphertext tag[16]. AES-256-GCM with a random nonce,
// under a key of its own for each purpose (HKDF-SHA256 of the secret), so that nonces of two
// purposes cannot meet. Associated data are version, key_id, purpose, tenant and name, each with
// its size: what was sealed for one place opens at no other. 2^32 messages of one purpose under one
// secret are the bound that random nonces set.
//
// Secrets and keys are wiped from memory when they are dropped, and stand in no log and no error.
// A ring does not change once it is shared: Seal, Open and Derive may be called from any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <kvgate/result.h>

namespace kvgate {

class Keyring {
 public:
  static constexpr size_t kSecretsMax = 16;
  static constexpr size_t kSecretBytesMin = 32;
  static constexpr size_t kSecretBytesMax = 1024;
  static constexpr size_t kTextBytesMax = 64 * 1024;  // of what Parse reads
  // What a sealed text is longer than what it holds.
  static constexpr size_t kOverheadBytes = 1 + 8 + 12 + 16;

  using Secret = std::array<uint8_t, 32>;
  // Of a secret: tells which one sealed something, and nothing else about it.
  using KeyId = std::array<uint8_t, 8>;

  // Secrets in hex or base64 (either alphabet, with or without padding), one a line or separated by
  // commas; a line that begins with # is a comment. kInvalidArgument, which names `source` and
  // never a secret: there is none, one is shorter than 32 bytes or clearly not random, there are
  // more than kSecretsMax, or one stands there twice.
  static Result<std::unique_ptr<Keyring>> Parse(std::string_view text, std::string_view source);
  // Of one new secret, which lives as long as the ring.
  static std::unique_ptr<Keyring> Generate();
  // A new secret in hex, as Parse takes it. The caller wipes it (Wipe).
  static std::string GenerateSecret();

  ~Keyring();
  Keyring(const Keyring&) = delete;
  Keyring& operator=(const Keyring&) = delete;

  // Where the secrets come from, in words: "environment variable X", "the file Y".
  const std::string& source() const;
  // Takes the secrets of the other ring, too, to open with and for nothing else. Call it before the
  // ring is shared. Those that are there already are left out.
  void AddForOpening(const Keyring& other);

  // What is sealed, and where it belongs.
  struct Place {
    std::string_view purpose;      // "turns", "pins", "export": a constant of the caller
    std::string_view tenant = {};  // whose it is; empty: nobody's
    std::string_view name = {};    // which one: the key of its row, the number of its frame
  };
  std::string Seal(const Place& place, std::string_view plain) const;
  // kPermissionDenied: sealed with a secret that this ring has not. kDataLoss: it is cut short,
  // damaged, or of another place. kUnsupported: of a newer version.
  Result<std::string> Open(const Place& place, std::string_view sealed) const;

  // 32 bytes that nobody can compute without the secret, the same for equal arguments.
  Secret Derive(std::string_view purpose, std::string_view name) const;

  KeyId sealing_key_id() const;
  KeyId deriving_key_id() const;
  // Whether this ring has the secret that something sealed was sealed with; false for other bytes.
  bool Knows(std::string_view sealed) const;
  bool Has(const KeyId& id) const;

 private:
  struct Impl;
  explicit Keyring(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

// Overwrites the text, in a way that the compiler keeps, and empties it.
void Wipe(std::string& text);

}  // namespace kvgate
