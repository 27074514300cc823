// WebhookReceiver: an HTTP server on loopback that answers POSTs with the statuses it is told, one
// connection at a time, and keeps what it got.
#pragma once

#include <algorithm>
#include <atomic>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace kvgate::telemetry {

class WebhookReceiver {
 public:
  struct Request {
    std::string head;
    std::string body;
  };
  static constexpr int kHang = 0;  // no answer until the receiver ends

  // Answers with these statuses, then with the last one of them.
  explicit WebhookReceiver(std::vector<int> statuses)
      : statuses_(std::move(statuses)), thread_([this] { Run(); }) {}
  ~WebhookReceiver() {
    is_over_ = true;
    boost::system::error_code ignored;
    Socket(io_).connect(acceptor_.local_endpoint(), ignored);
    thread_.join();
  }
  WebhookReceiver(const WebhookReceiver&) = delete;
  WebhookReceiver& operator=(const WebhookReceiver&) = delete;

  std::string url() const {
    return "http://127.0.0.1:" + std::to_string(acceptor_.local_endpoint().port()) + "/hook/secret";
  }
  std::vector<Request> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  using Socket = boost::asio::ip::tcp::socket;

  void Run() {
    std::vector<Socket> hanging;
    for (size_t i = 0;; ++i) {
      boost::system::error_code code;
      Socket socket(io_);
      acceptor_.accept(socket, code);
      if (is_over_) return;
      Request request = Read(socket);
      {
        const std::lock_guard lock(mutex_);
        requests_.push_back(std::move(request));
      }
      const int status = statuses_[std::min(i, statuses_.size() - 1)];
      if (status == kHang) {
        hanging.push_back(std::move(socket));
        continue;
      }
      const std::string answer = "HTTP/1.1 " + std::to_string(status) +
                                 " X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
      boost::asio::write(socket, boost::asio::buffer(answer), code);
    }
  }

  static Request Read(Socket& socket) {
    boost::system::error_code code;
    std::string text;
    const size_t head =
        boost::asio::read_until(socket, boost::asio::dynamic_buffer(text), "\r\n\r\n", code);
    constexpr std::string_view kLength = "Content-Length: ";
    const size_t at = text.find(kLength);
    const size_t length =
        at == std::string::npos ? 0 : std::stoul(text.substr(at + kLength.size()));
    if (text.size() < head + length) {
      boost::asio::read(socket, boost::asio::dynamic_buffer(text),
                        boost::asio::transfer_exactly(head + length - text.size()), code);
    }
    return {.head = text.substr(0, head), .body = text.substr(head)};
  }

  const std::vector<int> statuses_;
  std::atomic<bool> is_over_{false};
  mutable std::mutex mutex_;
  std::vector<Request> requests_;
  boost::asio::io_context io_;
  boost::asio::ip::tcp::acceptor acceptor_{
      io_, boost::asio::ip::tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0)};
  std::thread thread_;
};

}  // namespace kvgate::telemetry
