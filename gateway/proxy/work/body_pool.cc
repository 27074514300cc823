#include "gateway/proxy/work/body_pool.h"

#include <utility>
#include <vector>

namespace kvgate::proxy::work {
namespace {

constexpr size_t kBodyBytesMin = 1024;  // smaller ones are cheap to allocate
constexpr size_t kBodyBytesMax = size_t{4} << 20;
constexpr size_t kPoolBytesMax = size_t{8} << 20;

struct Pool {
  std::vector<std::string> bodies;
  size_t bytes = 0;
};

Pool& ThreadPool() {
  thread_local Pool pool;
  return pool;
}

}  // namespace

std::string TakeBody() {
  Pool& pool = ThreadPool();
  if (pool.bodies.empty()) return {};
  std::string body = std::move(pool.bodies.back());
  pool.bodies.pop_back();
  pool.bytes -= body.capacity();
  return body;
}

void ReturnBody(std::string&& body) {
  Pool& pool = ThreadPool();
  std::string taken = std::move(body);
  const size_t bytes = taken.capacity();
  if (bytes < kBodyBytesMin || bytes > kBodyBytesMax || pool.bytes + bytes > kPoolBytesMax) return;
  pool.bytes += bytes;
  pool.bodies.push_back(std::move(taken));
}

}  // namespace kvgate::proxy::work
