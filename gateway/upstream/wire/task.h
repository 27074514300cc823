// Task: the coroutine type of everything that waits for a socket, and its one completion token.
//
// Rules (each was reproduced on g++ 12 with Boost 1.81): coroutines are named functions or members,
// parameters by value; no capturing coroutine lambda inside co_await, and no temporary that owns
// memory (a string, a Response) either: g++ 12 frees such a temporary of `co_await F(c ? a : B())`
// twice, so arguments are named locals, moved. Every operation uses kAwait and its error_code is
// looked at on the spot; nothing is detached but through ConnectionGroup.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace kvgate::upstream {

template <typename T>
using Task = boost::asio::awaitable<T>;

inline constexpr auto kAwait = boost::asio::as_tuple(boost::asio::use_awaitable);

}  // namespace kvgate::upstream
