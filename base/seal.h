// Keyring: the secrets of a data directory, or those that several machines share, and their uses:
// sealed bytes (authenticated encryption) and derived secrets (salts, names of rows).
//
// A ring has one or more secrets. The first one seals and all of them open, so a secret is rotated
// by putting a new one in front. Derive uses the last one that is not for opening only: a new
// secret in front changes no derived value. Removing that last secret changes all derived values,
// so what they name or salt must be renamed or computed again.
//
// sealed = version:u8(1) key_id[8] nonce[12] ciphertext tag[16]. It is AES-256-GCM with a random
// nonce, under a separate key for each purpose (HKDF-SHA256 of the secret), so that nonces of two
// purposes cannot collide. The associated data are version, key_id, purpose, tenant and name, each
// with its size: sealed bytes can be opened only at the place for which they were sealed. Random
// nonces limit each purpose to 2^32 messages under one secret.
//
// Secrets and keys are wiped from memory when they are dropped, and appear in no log and no error.
// A ring does not change once it is shared: Seal, Open and Derive may be called from any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvgate {

class Keyring {
 public:
  static constexpr size_t kSecretsMax = 16;
  static constexpr size_t kSecretBytesMin = 32;
  static constexpr size_t kSecretBytesMax = 1024;
  static constexpr size_t kTextBytesMax = 64 * 1024;  // limit of Parse's input
  // The number of bytes by which a sealed text is longer than its plain text.
  static constexpr size_t kOverheadBytes = 1 + 8 + 12 + 16;

  using Secret = std::array<uint8_t, 32>;
  // Identifies the secret that sealed something, and reveals nothing else about it.
  using KeyId = std::array<uint8_t, 8>;

  // Parses secrets in hex or base64 (either alphabet, with or without padding), one per line or
  // separated by commas; a line that begins with # is a comment. Fails with kInvalidArgument,
  // naming `source` and never a secret, if there is none, one is shorter than 32 bytes or clearly
  // not random, there are more than kSecretsMax, or one appears twice.
  static Result<std::unique_ptr<Keyring>> Parse(std::string_view text, std::string_view source);
  // Makes a ring of one new secret, which lives as long as the ring.
  static std::unique_ptr<Keyring> Generate();
  // Returns a new secret in hex, as Parse takes it. The caller wipes it (Wipe).
  static std::string GenerateSecret();

  ~Keyring();
  Keyring(const Keyring&) = delete;
  Keyring& operator=(const Keyring&) = delete;

  // The origin of the secrets, in words: "environment variable X", "the file Y".
  const std::string& source() const;
  // Adds the secrets of the other ring for opening only, except those that this ring has already.
  // To be called before the ring is shared.
  void AddForOpening(const Keyring& other);

  // The place that sealed bytes belong to.
  struct Place {
    std::string_view purpose;      // "turns", "pins", "export": a constant of the caller
    std::string_view tenant = {};  // the owner; empty for data that belongs to no tenant
    std::string_view name = {};    // the item: the key of its row, the number of its frame
  };
  std::string Seal(const Place& place, std::string_view plain) const;
  // Fails with kPermissionDenied if this ring lacks the sealing secret, kDataLoss if the bytes are
  // cut short, damaged or sealed for another place, and kUnsupported if their version is newer.
  Result<std::string> Open(const Place& place, std::string_view sealed) const;

  // Returns 32 bytes that cannot be computed without the secret; equal arguments give equal bytes.
  Secret Derive(std::string_view purpose, std::string_view name) const;

  KeyId sealing_key_id() const;
  KeyId deriving_key_id() const;
  // True if this ring has the secret with which the bytes were sealed; false for bytes of another
  // kind.
  bool Knows(std::string_view sealed) const;
  bool Has(const KeyId& id) const;

 private:
  struct Impl;
  explicit Keyring(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

// Overwrites the text in a way that the compiler does not optimise away, and empties it.
void Wipe(std::string& text);

}  // namespace kvgate
