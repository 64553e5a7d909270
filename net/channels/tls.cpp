#include "troupe/net/channels/tls.hpp"

#include "troupe/net/security/x509.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <limits>
#include <mutex>
#include <string_view>
#include <vector>

namespace troupe::transport {

namespace {

using security::checked;
using security::is_for;
using security::is_of_node;
using security::names_of;
using security::releases;
using security::text_of;

using context_pointer = std::shared_ptr<SSL_CTX>;
using session_pointer = std::unique_ptr<SSL, releases<SSL_free>>;

/// Names of the planes and of guests in ALPN, each preceded by its length.
constexpr std::string_view alpn_tensors = "\x0etroupe-tensors", alpn_control = "\x0etroupe-control",
                           alpn_guest = "\x0ctroupe-guest";
constexpr std::string_view alpn_of(plane where) {
  return where == plane::tensors ? alpn_tensors : alpn_control;
}

/// A record carries at most this many bytes (RFC 8446, section 5.1).
constexpr std::size_t record_bytes = 16 * 1024;

/// Received bytes are taken from the socket in blocks of this size.
constexpr std::size_t read_ahead_bytes = 128 * 1024;

/// What a node accepts, without guests and with them.
constexpr std::string_view of_nodes = "\x0etroupe-tensors\x0etroupe-control",
                           of_all = "\x0etroupe-tensors\x0etroupe-control\x0ctroupe-guest";

int choose_purpose(SSL*, const unsigned char** chosen, unsigned char* size, const unsigned char* offered,
                   unsigned int offered_bytes, void* accepted) {
  const auto ours = *static_cast<const std::string_view*>(accepted);
  unsigned char* selected = nullptr;
  if (SSL_select_next_proto(&selected, size, reinterpret_cast<const unsigned char*>(ours.data()),
                            static_cast<unsigned int>(ours.size()), offered, offered_bytes) != OPENSSL_NPN_NEGOTIATED)
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  *chosen = selected;
  return SSL_TLSEXT_ERR_OK;
}

/// Returns what is wrong with the certificate of the other side.
std::string text_of_certificate(const X509* certificate, long result) {
  switch (result) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return "its certificate expired on " + text_of(X509_get0_notAfter(certificate));
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return "its certificate is not valid before " + text_of(X509_get0_notBefore(certificate)) +
             "; compare the clocks of the two hosts";
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      return "its certificate is from another authority than that of this node";
    default:
      return std::string("its certificate is not accepted: ") + X509_verify_cert_error_string(result);
  }
}

/// Stores what is wrong with the certificate of the other side, because the session itself does not keep it.
int keep_reason(int accepted, X509_STORE_CTX* about) {
  if (accepted == 1) return accepted;
  const auto* session = static_cast<SSL*>(X509_STORE_CTX_get_ex_data(about, SSL_get_ex_data_X509_STORE_CTX_idx()));
  if (auto* reason = static_cast<std::string*>(SSL_get_app_data(session)))
    *reason = text_of_certificate(X509_STORE_CTX_get_current_cert(about), X509_STORE_CTX_get_error(about));
  return accepted;
}

context_pointer make_context(const security::credential_files& files, bool accepts_guests) {
  context_pointer context{SSL_CTX_new(TLS_method()), SSL_CTX_free};
  checked(context != nullptr, "SSL_CTX_new");
  auto* raw = context.get();
  checked(SSL_CTX_set_min_proto_version(raw, TLS1_3_VERSION) == 1 &&
              SSL_CTX_set_ciphersuites(raw, "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256") == 1,
          "SSL_CTX_set_ciphersuites");
  checked(SSL_CTX_use_certificate_chain_file(raw, files.certificate.c_str()) == 1, "SSL_CTX_use_certificate");
  checked(SSL_CTX_use_PrivateKey_file(raw, files.key.c_str(), SSL_FILETYPE_PEM) == 1, "SSL_CTX_use_PrivateKey");
  checked(SSL_CTX_load_verify_file(raw, files.authority.c_str()) == 1, "SSL_CTX_load_verify_file");
  SSL_CTX_set_verify(raw, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, keep_reason);
  SSL_CTX_set_alpn_select_cb(raw, choose_purpose, const_cast<std::string_view*>(accepts_guests ? &of_all : &of_nodes));
  // Sessions are not resumed: every connection verifies both certificates, and nothing can be replayed.
  SSL_CTX_set_session_cache_mode(raw, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(raw, 0);
  SSL_CTX_set_options(raw, SSL_OP_NO_TICKET | SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_mode(raw, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_read_ahead(raw, 1);
  SSL_CTX_set_default_read_buffer_len(raw, read_ahead_bytes);
  return context;
}

/// Returns why the other side or this side ended the handshake.
std::string text_of_reason(int reason) {
  switch (reason) {
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_UNEXPECTED_MESSAGE:
    case SSL_R_BAD_RECORD_TYPE:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
      return "it does not use TLS 1.3";
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
      return "it has shown no certificate";
    case SSL_R_NO_APPLICATION_PROTOCOL:
    case SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL:
      return "it does not ask for a connection between nodes (ALPN)";
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
      return "it refuses the certificate of this node: another authority";
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
      return "it refuses the certificate of this node: expired; compare the clocks of the two hosts";
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
      return "it refuses the certificate of this node";
    default:
      break;
  }
  return "TLS: " + std::string(ERR_reason_error_string(ERR_PACK(ERR_LIB_SSL, 0, reason)) != nullptr
                                   ? ERR_reason_error_string(ERR_PACK(ERR_LIB_SSL, 0, reason))
                                   : "unknown error");
}

/// Writes without SIGPIPE, which would end the program of a guest. OpenSSL's own BIO calls write(2).
int send_quietly(BIO* bio, const char* data, int size) {
  int socket = -1;
  BIO_get_fd(bio, &socket);
  const auto count = static_cast<int>(::send(socket, data, static_cast<std::size_t>(size), MSG_NOSIGNAL));
  BIO_clear_retry_flags(bio);
  if (count <= 0 && BIO_sock_should_retry(count) != 0) BIO_set_retry_write(bio);
  return count;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // since OpenSSL 3.5, which has nothing in their place
/// Returns OpenSSL's BIO for sockets with another write.
const BIO_METHOD* quiet_socket() {
  static const auto made = [] {
    auto* method = BIO_meth_new(BIO_TYPE_SOCKET, "socket without SIGPIPE");
    const auto* usual = BIO_s_socket();
    checked(method != nullptr && BIO_meth_set_write(method, send_quietly) == 1 &&
                BIO_meth_set_read(method, BIO_meth_get_read(usual)) == 1 &&
                BIO_meth_set_ctrl(method, BIO_meth_get_ctrl(usual)) == 1 &&
                BIO_meth_set_create(method, BIO_meth_get_create(usual)) == 1 &&
                BIO_meth_set_destroy(method, BIO_meth_get_destroy(usual)) == 1,
            "BIO_meth_new");
    return method;
  }();
  return made;
}
#pragma GCC diagnostic pop

/// Connects a session with a socket, which remains open after it.
bool set_socket(SSL* session, int socket) {
  auto* bio = BIO_new(quiet_socket());
  if (bio == nullptr) return false;
  BIO_set_fd(bio, socket, BIO_NOCLOSE);
  SSL_set_bio(session, bio, bio);
  return true;
}

class tls_channel final : public channel {
 public:
  tls_channel(context_pointer context, int socket, std::uint64_t records_per_key)
      : context_(std::move(context)), session_(SSL_new(context_.get())), records_per_key_(records_per_key) {
    checked(session_ && set_socket(session_.get(), socket) && SSL_set_app_data(session_.get(), &refused_) == 1,
            "SSL_new");
    SSL_set_accept_state(session_.get());
  }

  /// Makes the channel of the dialling side, for one of the purposes above.
  tls_channel(context_pointer context, int socket, std::uint64_t records_per_key, std::string node,
              std::string_view offer)
      : tls_channel(std::move(context), socket, records_per_key) {
    node_ = std::move(node);
    dialled_ = true;
    SSL_set_connect_state(session_.get());
    checked(SSL_set_alpn_protos(session_.get(), reinterpret_cast<const unsigned char*>(offer.data()),
                                static_cast<unsigned int>(offer.size())) == 0,
            "SSL_set_alpn_protos");
  }

  progress shake_hands() override {
    ERR_clear_error();
    const int result = SSL_do_handshake(session_.get());
    if (result == 1) {
      if (!node_.empty())
        check_name(node_);
      else if (dialled_ && !is_of_node(SSL_get0_peer_certificate(session_.get())))
        throw handshake_error("its certificate is that of a guest, not of a node");
      return progress::done;
    }
    switch (SSL_get_error(session_.get(), result)) {
      case SSL_ERROR_WANT_READ:
        return progress::wants_read;
      case SSL_ERROR_WANT_WRITE:
        return progress::wants_write;
      case SSL_ERROR_SSL:
        throw handshake_error(text_of_failure());
      default:
        throw handshake_error("it closed the connection during the handshake");
    }
  }

  void check(const std::string& node, plane where) const override {
    check_name(node);
    if (!is_for_purpose(alpn_of(where)))
      throw handshake_error("it has connected for another purpose than its hello says");
  }

  bool is_guest() const override { return is_for_purpose(alpn_guest); }

  std::string name_of_guest() const override {
    const auto* certificate = SSL_get0_peer_certificate(session_.get());
    const auto guest = security::name_of_guest(certificate);
    return guest.empty() ? names_of(certificate) : guest;
  }

  std::ptrdiff_t read(std::span<std::byte> room) override {
    const std::lock_guard lock{mutex_};
    ERR_clear_error();
    return outcome(SSL_read(session_.get(), room.data(), size_of(room.size())));
  }

  /// Writes at most one record. A small frame is one record, and the first record of a large frame begins with its
  /// header.
  std::ptrdiff_t write(std::span<const std::byte> header, std::span<const std::byte> payload) override {
    const std::lock_guard lock{mutex_};
    if (header.empty()) return write_record(payload.first(std::min(payload.size(), record_bytes)));
    const auto joined = std::min(payload.size(), record_bytes - header.size());
    std::memcpy(record_.data(), header.data(), header.size());
    if (joined > 0) std::memcpy(record_.data() + header.size(), payload.data(), joined);
    return write_record(std::span(record_).first(header.size() + joined));
  }

  bool needs_input() const override {
    const std::lock_guard lock{mutex_};
    return needs_input_;
  }

  std::string error() const override {
    const std::lock_guard lock{mutex_};
    return error_;
  }

 private:
  /// Returns whether the handshake has agreed on this purpose.
  bool is_for_purpose(std::string_view purpose) const {
    const unsigned char* chosen = nullptr;
    unsigned int size = 0;
    SSL_get0_alpn_selected(session_.get(), &chosen, &size);
    return std::string_view{reinterpret_cast<const char*>(chosen), size} == purpose.substr(1);
  }

  std::ptrdiff_t write_record(std::span<const std::byte> bytes) {
    ERR_clear_error();
    // A record that waits for space in the socket must be completed first.
    if (!unfinished_ && records_ >= records_per_key_) {
      SSL_key_update(session_.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
      records_ = 0;
    }
    const auto result = SSL_write(session_.get(), bytes.data(), size_of(bytes.size()));
    // If only part of a message of the protocol has arrived, nothing is encrypted until the rest has.
    needs_input_ = SSL_want_read(session_.get());
    const auto count = outcome(result);
    unfinished_ = count < 0;
    if (count > 0) ++records_;
    if (count != 0) return count;
    errno = EPIPE;  // the other side has ended the session
    return -1;
  }

  static int size_of(std::size_t bytes) {
    return static_cast<int>(std::min<std::size_t>(bytes, std::numeric_limits<int>::max()));
  }

  void check_name(const std::string& node) const {
    const auto* certificate = SSL_get0_peer_certificate(session_.get());
    if (certificate == nullptr) throw handshake_error("it has shown no certificate");
    if (!is_for(certificate, node))
      throw handshake_error("its certificate is for " + names_of(certificate) + ", not for node " + node);
  }

  std::string text_of_failure() const {
    const auto error = ERR_peek_error();
    ERR_clear_error();
    return refused_.empty() ? text_of_reason(ERR_GET_REASON(error)) : refused_;
  }

  /// Converts the result of SSL_read or SSL_write to that of recv or send.
  std::ptrdiff_t outcome(int result) {
    if (result > 0) return result;
    const auto system = errno;
    switch (SSL_get_error(session_.get(), result)) {
      case SSL_ERROR_WANT_READ:
      case SSL_ERROR_WANT_WRITE:
        errno = EAGAIN;
        return -1;
      case SSL_ERROR_ZERO_RETURN:
        return 0;
      case SSL_ERROR_SYSCALL:
        errno = system != 0 ? system : ECONNRESET;
        return -1;
      default:
        break;
    }
    error_ = text_of_failure();
    errno = EPROTO;
    return -1;
  }

  context_pointer context_;
  session_pointer session_;
  bool dialled_{false};
  std::string node_;          ///< The node that was dialled; empty on the accepting side, and if it may be any node.
  mutable std::mutex mutex_;  ///< Protects the session after the handshake, and the members below.
  std::array<std::byte, record_bytes> record_;
  std::uint64_t records_per_key_;
  std::uint64_t records_{0};  ///< Number of records written with the current key.
  bool unfinished_{false};    ///< Whether the last write must be repeated.
  bool needs_input_{false};   ///< Result of needs_input() for the last write.
  std::string error_;
  std::string refused_;  ///< Why the certificate of the other side was refused.
};

class tls_channel_factory final : public channel_factory {
 public:
  tls_channel_factory(context_pointer context, std::uint64_t records_per_key)
      : context_(std::move(context)), records_per_key_(records_per_key) {}
  std::unique_ptr<channel> accepted(int socket) const override {
    return std::make_unique<tls_channel>(context_, socket, records_per_key_);
  }
  std::unique_ptr<channel> dialled(int socket, const std::string& node, plane where) const override {
    return std::make_unique<tls_channel>(context_, socket, records_per_key_, node, alpn_of(where));
  }

 private:
  context_pointer context_;
  std::uint64_t records_per_key_;
};

}  // namespace

std::shared_ptr<const channel_factory> tls_channels(const security::credential_files& files,
                                                    const tls_options& options) {
  return std::make_shared<tls_channel_factory>(make_context(files, options.accepts_guests), options.records_per_key);
}

std::unique_ptr<channel> tls_channel_of_guest(int socket, const security::credential_files& files,
                                              const std::string& node) {
  return std::make_unique<tls_channel>(make_context(files, false), socket, most_records_per_key, node, alpn_guest);
}

}  // namespace troupe::transport
