#include "text/rust.h"

namespace quern::rust {

Status to_status(QuernFfiStatus status, const Buffer& error) {
  switch (status) {
    case QUERN_FFI_OK: return {};
    case QUERN_FFI_INVALID_FILE: return make_error(ErrorCode::kInvalidFile, error.text());
    case QUERN_FFI_INVALID_ARGUMENT: return make_error(ErrorCode::kInvalidArgument, error.text());
    // A limit on what one caller may ask for, not on what all share: trying again will not help.
    case QUERN_FFI_EXHAUSTED: return make_error(ErrorCode::kInvalidArgument, error.text());
    case QUERN_FFI_INTERNAL: break;
  }
  return make_error(ErrorCode::kInternal, error.text());
}

}  // namespace quern::rust
