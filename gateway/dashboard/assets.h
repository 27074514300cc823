// Assets: what a browser gets for a path of the dashboard. The files are the same for everybody, so
// no key is asked for; the page asks for the gateway's data with the key of who reads it. Knows no
// sockets and no requests.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvgate::dashboard {

struct Answer {
  int status = 404;
  std::string content_type = {};
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
};

struct Question {
  std::string_view file = {};             // "" is the page, else the name of an asset
  std::string_view accept_encoding = {};  // the header's value; empty: only plain bytes
  std::string_view if_none_match = {};
};
// 200 with the bytes, compressed if the browser takes them so; 304 if it has them; 404.
Answer AnswerAsset(const Question& question);

// Returns true if an Accept-Encoding header takes gzip: "gzip, br", "*", "gzip;q=0.5", but neither
// "gzip;q=0" nor "".
bool TakesGzip(std::string_view accept_encoding);

}  // namespace kvgate::dashboard
