// PieceBody: a Beast body that holds the bytes parsed last, to be taken away piece by piece. Unlike
// string_body it reserves no memory for an announced length, such as a peer's 10 GB.
#pragma once

#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/optional.hpp>
#include <cstdint>
#include <string>

namespace kvgate::upstream::wire {

struct PieceBody {
  using value_type = std::string;

  class reader {
   public:
    template <bool is_request, typename Fields>
    reader(boost::beast::http::header<is_request, Fields>&, value_type& piece) : piece_(piece) {}

    void init(const boost::optional<uint64_t>&, boost::beast::error_code& code) { code = {}; }

    template <typename Buffers>
    size_t put(const Buffers& buffers, boost::beast::error_code& code) {
      code = {};
      size_t size = 0;
      for (const auto buffer : boost::beast::buffers_range_ref(buffers)) {
        piece_.append(static_cast<const char*>(buffer.data()), buffer.size());
        size += buffer.size();
      }
      return size;
    }

    void finish(boost::beast::error_code& code) { code = {}; }

   private:
    value_type& piece_;
  };
};

}  // namespace kvgate::upstream::wire
