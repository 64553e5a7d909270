// The handshake of nodes that share a secret, a challenge and response in both directions:
//
//   dialling side    magic (8 bytes), challenge d (32 bytes)
//   accepting side   challenge a (32 bytes), HMAC-SHA256(secret, "accepted" | d | a)
//   dialling side    HMAC-SHA256(secret, "dialled " | d | a)
//
// The labels prevent a proof of one side from being used as that of the other. A guest uses another magic, and the
// secret of guests.
#include "troupe/net/channels/plain_channel.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

namespace troupe::transport {

namespace {

/// The magic of a node, and that of a guest.
constexpr std::string_view greeting_of_node = "TROUPE\r\n", greeting_of_guest = "TROUPE-G";
static_assert(greeting_of_node.size() == greeting_of_guest.size());
constexpr auto greeting_bytes = greeting_of_node.size();

constexpr std::size_t challenge_bytes = 32, proof_bytes = 32;

using challenge = std::array<std::byte, challenge_bytes>;
using proof = std::array<std::byte, proof_bytes>;

challenge random_challenge() {
  challenge bytes{};
  if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(bytes.size())) != 1)
    throw handshake_error("this node has no random numbers");
  return bytes;
}

proof prove(const security::shared_secret& secret, std::string_view label, const challenge& dialled,
            const challenge& accepted) {
  std::vector<std::byte> text(label.size());
  std::memcpy(text.data(), label.data(), label.size());
  text.insert(text.end(), dialled.begin(), dialled.end());
  text.insert(text.end(), accepted.begin(), accepted.end());
  proof digest{};
  unsigned int size = 0;
  if (HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(),
           reinterpret_cast<unsigned char*>(digest.data()), &size) == nullptr ||
      size != digest.size())
    throw handshake_error("this node cannot compute HMAC-SHA256");
  return digest;
}

constexpr std::string_view of_accepted = "accepted", of_dialled = "dialled ";

class secret_channel final : public plain_channel {
 public:
  /// Makes the channel of the accepting side.
  secret_channel(int socket, const channel_secrets& known)
      : plain_channel(socket), known_(known), own_(random_challenge()), awaited_(greeting_bytes + challenge_bytes) {}

  /// Makes the channel of the dialling side.
  secret_channel(int socket, const security::shared_secret& secret, bool as_guest)
      : plain_channel(socket),
        secret_(secret),
        dialled_(true),
        guest_(as_guest),
        own_(random_challenge()),
        awaited_(challenge_bytes + proof_bytes) {
    append(std::as_bytes(std::span{as_guest ? greeting_of_guest : greeting_of_node}));
    append(own_);
  }

  bool is_guest() const override { return guest_; }

  progress shake_hands() override {
    while (true) {
      if (!send_out()) return progress::wants_write;
      if (awaited_ == 0) return progress::done;
      if (!take_in()) return progress::wants_read;
      dialled_ ? hear_accepted() : hear_dialled();
    }
  }

 private:
  template <class Bytes>
  void append(const Bytes& bytes) {
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }

  bool send_out() {
    while (sent_ < out_.size()) {
      const auto count = plain_channel::write(std::span(out_).subspan(sent_), {});
      if (count >= 0) {
        sent_ += static_cast<std::size_t>(count);
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        return false;
      } else if (errno != EINTR) {
        throw handshake_error(std::strerror(errno));
      }
    }
    return true;
  }

  /// Reads no more bytes than belong to the handshake.
  bool take_in() {
    while (filled_ < awaited_) {
      const auto count = plain_channel::read(std::span(in_).subspan(filled_, awaited_ - filled_));
      if (count > 0) {
        filled_ += static_cast<std::size_t>(count);
        check_magic();
      } else if (count == 0) {
        throw handshake_error(dialled_ ? "it closed the connection during the handshake"
                                       : "it closed the connection without a proof that it knows the secret");
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        return false;
      } else if (errno != EINTR) {
        throw handshake_error(std::strerror(errno));
      }
    }
    return true;
  }

  /// Returns whether the bytes received so far are those of a greeting.
  bool begins_with(std::string_view greeting) const {
    return std::memcmp(in_.data(), greeting.data(), std::min(filled_, greeting.size())) == 0;
  }

  /// Refuses other protocols as soon as a byte differs.
  void check_magic() const {
    if (dialled_ || heard_) return;
    constexpr auto client_hello = std::byte{22};  // RFC 8446, section 5.1
    if (in_[0] == client_hello) throw handshake_error("it uses TLS, but this node has no certificate ([security])");
    if (!begins_with(greeting_of_node) && !begins_with(greeting_of_guest))
      throw handshake_error("it is not a node of Troupe, or one without a secret");
  }

  void hear_accepted() {
    challenge theirs{};
    std::memcpy(theirs.data(), in_.data(), theirs.size());
    check_proof(challenge_bytes, prove(secret_, of_accepted, own_, theirs));
    append(prove(secret_, of_dialled, own_, theirs));
    awaited_ = 0;
  }

  void hear_dialled() {
    if (heard_) {
      check_proof(0, prove(secret_, of_dialled, theirs_, own_));
      awaited_ = 0;
      return;
    }
    heard_ = true;
    guest_ = begins_with(greeting_of_guest);
    const auto& expected = guest_ ? known_.of_guests : known_.of_nodes;
    if (!expected)
      throw handshake_error(guest_ ? "it is a guest, but this run has no entrance for guests (troupe run --actors)"
                                   : "it is a node, but this run has only one");
    secret_ = *expected;
    std::memcpy(theirs_.data(), in_.data() + greeting_bytes, theirs_.size());
    append(own_);
    append(prove(secret_, of_accepted, theirs_, own_));
    filled_ = 0;
    awaited_ = proof_bytes;
  }

  void check_proof(std::size_t at, const proof& expected) const {
    if (CRYPTO_memcmp(in_.data() + at, expected.data(), expected.size()) != 0)
      throw handshake_error("it has another secret");
  }

  channel_secrets known_;             ///< On the accepting side.
  security::shared_secret secret_{};  ///< The one that both sides must know.
  bool dialled_{false};
  bool guest_{false};
  bool heard_{false};  ///< Whether the challenge of the dialling side has arrived.
  challenge own_, theirs_{};
  std::vector<std::byte> out_;
  std::size_t sent_{0};
  std::array<std::byte, challenge_bytes + proof_bytes> in_{};
  std::size_t filled_{0}, awaited_{0};
};

class secret_channel_factory final : public channel_factory {
 public:
  explicit secret_channel_factory(const channel_secrets& known) : known_(known) {}
  std::unique_ptr<channel> accepted(int socket) const override {
    return std::make_unique<secret_channel>(socket, known_);
  }
  std::unique_ptr<channel> dialled(int socket, const std::string&, plane) const override {
    return std::make_unique<secret_channel>(socket, known_.of_nodes.value(), false);
  }

 private:
  channel_secrets known_;
};

}  // namespace

std::shared_ptr<const channel_factory> secret_channels(const channel_secrets& known) {
  return std::make_shared<secret_channel_factory>(known);
}

std::unique_ptr<channel> secret_channel_of_guest(int socket, const security::shared_secret& secret) {
  return std::make_unique<secret_channel>(socket, secret, true);
}

}  // namespace troupe::transport
