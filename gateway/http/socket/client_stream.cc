#include "gateway/http/socket/client_stream.h"

#include <openssl/ssl.h>
#include <sys/socket.h>

#include <boost/asio/write.hpp>

namespace kvgate::http::socket {

namespace asio = boost::asio;

Task<boost::system::error_code> ClientStream::Handshake(const ListenerTls& tls,
                                                        asio::const_buffer first_bytes) {
  SSL* ssl = SSL_new(tls.context());
  if (ssl == nullptr) co_return asio::error::no_memory;
  tls_.emplace(lower_, ssl);  // takes ownership of ssl
  auto [code, size] =
      co_await tls_->async_handshake(asio::ssl::stream_base::server, first_bytes, kAwait);
  if (code) ends_well_ = false;
  co_return code;
}

Task<void> ClientStream::EndSending() {
  boost::system::error_code ignored;
  if (tls_ && ends_well_) {
    // Acts as if the client's close_notify had come, so that the shutdown does not wait for it.
    SSL_set_shutdown(tls_->native_handle(), SSL_RECEIVED_SHUTDOWN);
    co_await tls_->async_shutdown(kAwait);
    ends_well_ = false;
  }
  lower_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
}

bool ClientStream::SendNow(std::string_view text, std::shared_ptr<void> owner) {
  if (!tls_) {
    return ::send(lower_.socket().native_handle(), text.data(), text.size(),
                  MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
  }
  asio::async_write(*this, asio::buffer(text.data(), text.size()),
                    [owner = std::move(owner)](const boost::system::error_code&, size_t) {});
  return lower_.socket().is_open();
}

void ClientStream::ResetAtEnd() {
  boost::system::error_code ignored;
  lower_.socket().set_option(asio::socket_base::linger(true, 0), ignored);
  ends_well_ = false;
}

}  // namespace kvgate::http::socket
