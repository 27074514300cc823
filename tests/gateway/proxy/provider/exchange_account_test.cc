#include "gateway/proxy/provider/exchange_account.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <future>
#include <thread>

namespace kvgate::proxy::provider {
namespace {

namespace asio = boost::asio;

// Told records the notifications in order; the hash waits until the test releases it.
struct Told {
  std::mutex mutex;
  std::string text;
  std::promise<void> release;
  std::promise<void> ended;
  void Add(const std::string& what) {
    const std::lock_guard lock(mutex);
    text += what;
  }
};

class Observer final : public upstream::ExchangeObserver {
 public:
  explicit Observer(Told& told) : told_(told) {}
  void OnSent(std::string_view received, std::string_view) override {
    told_.release.get_future().wait();
    told_.Add("sent " + std::string(received) + ";");
  }
  void OnHead(const upstream::ExchangeHead&) override {}
  void OnBody(std::string_view) override {}
  upstream::ExchangeTotals OnEnd(const upstream::ExchangeEnd& end) override {
    told_.Add("end " + end.error);
    told_.ended.set_value();
    return {};
  }

 private:
  Told& told_;
};

TEST(ExchangeAccountTest, IsClosedBehindTheHashWhoeverComesFirst) {
  for (const bool end_first : {true, false}) {
    Told told;
    asio::io_context io;
    auto workers = std::make_unique<service::WorkQueue>(service::WorkQueue::Options{.threads = 1});
    std::weak_ptr<const std::string> watched;
    {
      const auto account =
          std::make_shared<ExchangeAccount>(std::make_unique<Observer>(told), nullptr);
      auto body = std::make_shared<const std::string>("body");
      watched = body;
      account->HashOnWorker(*workers, io.get_executor(), body, body);
      body.reset();
      if (!end_first) {
        told.release.set_value();
        workers.reset();
      }
      account->End({.error = "cut"});
    }
    if (end_first) {
      EXPECT_EQ(told.text, "");
      told.release.set_value();
    }
    told.ended.get_future().wait();
    workers.reset();
    EXPECT_EQ(told.text, "sent body;end cut");
    EXPECT_FALSE(watched.expired());
    io.run();
    EXPECT_TRUE(watched.expired());  // the body is released on the connection's executor
  }
}

TEST(ExchangeAccountTest, WithoutAHashItsEndIsAtOnce) {
  Told told;
  std::make_shared<ExchangeAccount>(std::make_unique<Observer>(told), nullptr)->End({});
  EXPECT_EQ(told.text, "end ");
}

}  // namespace
}  // namespace kvgate::proxy::provider
