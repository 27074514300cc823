// Task: the coroutine type of all code that waits for a socket, and its only completion token.
//
// Rules (each problem was reproduced on g++ 12 with Boost 1.81): coroutines are named functions or
// members and take parameters by value. No capturing coroutine lambda stands inside co_await, and
// no temporary that owns memory (a string, a Response): g++ 12 frees such a temporary of `co_await
// F(c ? a : B())` twice, so arguments are named locals that are moved. Every operation uses kAwait
// and its error_code is checked at once. Only ConnectionGroup spawns detached work.
#pragma once

#ifndef BOOST_ASIO_NO_DEPRECATED
#error "link Boost::headers: sources with and without this definition do not fit together"
#endif

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace kvgate::upstream::wire {

template <typename T>
using Task = boost::asio::awaitable<T>;

inline constexpr auto kAwait = boost::asio::as_tuple(boost::asio::use_awaitable);

}  // namespace kvgate::upstream::wire
