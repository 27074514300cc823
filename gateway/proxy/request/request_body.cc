#include "gateway/proxy/request/request_body.h"

#include <functional>
#include <utility>

#include "gateway/proxy/work/body_pool.h"
#include "gateway/upstream/wire/content_decoder.h"

namespace kvgate::proxy::request {

RequestBody::RequestBody(const Args& args)
    : args_(args),
      lease_(args.budget, args.tenant),
      is_encoded_(!upstream::wire::IsIdentity(args.encoding)) {}

void RequestBody::TakeDecoded() {
  if (decoded_) bytes_ = std::move(*std::exchange(decoded_, std::nullopt));
}

Result<void> RequestBody::Replace(std::string bytes) {
  if (bytes.size() > lease_.bytes()) KVGATE_TRY_VOID(lease_.GrowTo(bytes.size()));
  decoded_.reset();
  work::ReturnBody(std::exchange(bytes_, std::move(bytes)));
  is_encoded_ = false;
  is_scanned_ = false;
  scan_ = {};
  return {};
}

void RequestBody::Release() {
  decoded_.reset();
  work::ReturnBody(std::exchange(bytes_, {}));
  lease_.Reset();
}

work::Task<Result<void>> RequestBody::Scan(work::WorkRunner& runner) {
  if (std::exchange(is_scanned_, true)) co_return Result<void>();
  if (!is_encoded_) {
    std::function<void()> scan = [this] { scan_ = upstream::ScanBody(bytes_); };
    if (bytes_.size() >= work::kLargeBodyBytes) {
      const Result<void> ran = co_await runner.RunOn(runner.pools().request, std::move(scan));
      co_return ran;
    }
    scan();
    co_return Result<void>();
  }
  // Not every recipient looks at all of several encodings.
  if (args_.is_ambiguous) co_return Result<void>();
  Result<void> fits;
  std::function<void()> work = [this, &fits] {
    const uint64_t encoded = lease_.bytes();
    fits = lease_.GrowTo(encoded + args_.decoded_bytes_max);
    if (!fits) return;
    decoded_ = upstream::DecodeBody(args_.encoding, bytes_, args_.decoded_bytes_max);
    lease_.ShrinkTo(encoded + (decoded_ ? decoded_->size() : 0));
    if (decoded_) scan_ = upstream::ScanBody(*decoded_);
  };
  const Result<void> ran = co_await runner.RunOn(runner.pools().request, std::move(work));
  co_return ran ? fits : ran;
}

}  // namespace kvgate::proxy::request
