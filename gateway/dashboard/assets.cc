#include "gateway/dashboard/assets.h"

#include <zlib.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>

#include "base/check.h"
#include "gateway/dashboard/bundle.h"

namespace kvgate::dashboard {
namespace {

// Scripts, styles, pictures and data come from this server only; nobody frames the page.
constexpr std::string_view kContentSecurityPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; font-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'";
constexpr std::string_view kPage = "index.html";

std::string_view TypeOf(std::string_view name) {
  if (name.ends_with(".html")) return "text/html; charset=utf-8";
  if (name.ends_with(".js")) return "text/javascript; charset=utf-8";
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  if (name.ends_with(".svg")) return "image/svg+xml";
  return "application/octet-stream";
}

// REQUIRES: `packed` is one whole gzip file, as each file of the bundle is.
std::string Unpack(std::string_view packed) {
  z_stream stream = {};
  constexpr int kGzipFormat = 16;  // added to the bits of the window
  const int opened = inflateInit2(&stream, kGzipFormat + MAX_WBITS);
  KVGATE_CHECK(opened == Z_OK, "zlib opens a stream of gzip");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  std::string plain;
  int state = Z_OK;
  while (state == Z_OK) {
    char piece[16 << 10];
    stream.next_out = reinterpret_cast<Bytef*>(piece);
    stream.avail_out = sizeof(piece);
    state = inflate(&stream, Z_NO_FLUSH);
    plain.append(piece, sizeof(piece) - stream.avail_out);
  }
  inflateEnd(&stream);
  KVGATE_CHECK(state == Z_STREAM_END, "a file of the bundle is whole");
  return plain;
}

const std::string& PlainOf(const BundledFile& file) {
  // All are unpacked at the first question that takes no gzip: few hundred KiB, and rare.
  static const std::map<std::string_view, std::string> all = [] {
    std::map<std::string_view, std::string> made;
    for (const BundledFile& one : Bundle()) made.emplace(one.name, Unpack(one.gzip));
    return made;
  }();
  return all.at(file.name);
}

std::string_view Trim(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

// Takes the next item of a list with commas.
std::string_view TakeItem(std::string_view& list) {
  const size_t comma = std::min(list.find(','), list.size());
  const std::string_view item = Trim(list.substr(0, comma));
  list.remove_prefix(std::min(comma + 1, list.size()));
  return item;
}

bool IsEqual(std::string_view text, std::string_view lower) {
  return std::equal(text.begin(), text.end(), lower.begin(), lower.end(), [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == b;
  });
}

// "q=0", "q=0.000" behind a semicolon: the coding is refused.
bool IsRefused(std::string_view parameters) {
  const size_t equals = parameters.find('=');
  if (equals == std::string_view::npos || !IsEqual(Trim(parameters.substr(0, equals)), "q")) {
    return false;
  }
  const std::string_view value = Trim(parameters.substr(equals + 1));
  return !value.empty() && value.find_first_not_of("0.") == std::string_view::npos;
}

// True if the list names this tag, whether as a strong or as a weak one, or any ("*").
bool HasTag(std::string_view list, std::string_view tag) {
  while (!list.empty()) {
    std::string_view item = TakeItem(list);
    if (item.starts_with("W/")) item.remove_prefix(2);
    if (item == tag || item == "*") return true;
  }
  return false;
}

const BundledFile* Find(std::string_view name) {
  const auto files = Bundle();
  const auto found = std::find_if(files.begin(), files.end(),
                                  [&](const BundledFile& file) { return file.name == name; });
  return found == files.end() ? nullptr : &*found;
}

}  // namespace

bool TakesGzip(std::string_view accept_encoding) {
  std::optional<bool> any;
  while (!accept_encoding.empty()) {
    const std::string_view item = TakeItem(accept_encoding);
    const size_t end = std::min(item.find(';'), item.size());
    const std::string_view coding = Trim(item.substr(0, end));
    const bool is_taken = !IsRefused(item.substr(std::min(end + 1, item.size())));
    if (IsEqual(coding, "gzip") || IsEqual(coding, "x-gzip")) return is_taken;
    if (coding == "*") any = is_taken;
  }
  return any.value_or(false);
}

Answer AnswerAsset(const Question& question) {
  const bool is_page = question.file.empty();
  // The page has one address.
  const BundledFile* const file =
      question.file == kPage ? nullptr : Find(is_page ? kPage : question.file);
  if (file == nullptr) return {};
  const bool packed = TakesGzip(question.accept_encoding);
  // The two forms of a file are different bytes, so they have different tags.
  std::string tag = "\"";
  tag.append(file->digest.substr(0, 32)).append(packed ? "-gz\"" : "\"");
  Answer answer{.status = 200, .content_type = std::string(TypeOf(file->name))};
  answer.headers = {{"etag", tag},
                    {"cache-control", "no-cache"},  // a newer program has newer files
                    {"vary", "accept-encoding"},
                    {"content-security-policy", std::string(kContentSecurityPolicy)},
                    {"x-content-type-options", "nosniff"},
                    {"referrer-policy", "no-referrer"}};
  if (HasTag(question.if_none_match, tag)) {
    answer.status = 304;
    return answer;
  }
  if (packed) {
    answer.headers.emplace_back("content-encoding", "gzip");
    answer.body = file->gzip;
  } else {
    answer.body = PlainOf(*file);
  }
  return answer;
}

}  // namespace kvgate::dashboard
