//! What the exported functions share: borrowed and owned bytes, status codes, and the guard that stops panics.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Once;

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Ok = 0,
    InvalidFile = 1,
    InvalidArgument = 2,
    Exhausted = 3,
    Internal = 4,
}

#[derive(Debug)]
pub struct Failure {
    pub status: Status,
    pub message: String,
}

impl Failure {
    fn new(status: Status, message: impl std::fmt::Display) -> Self {
        Failure { status, message: message.to_string().replace(['\n', '\r'], " ") }
    }
    pub fn file(message: impl std::fmt::Display) -> Self {
        Failure::new(Status::InvalidFile, message)
    }
    pub fn argument(message: impl std::fmt::Display) -> Self {
        Failure::new(Status::InvalidArgument, message)
    }
    pub fn exhausted(message: impl std::fmt::Display) -> Self {
        Failure::new(Status::Exhausted, message)
    }
    pub fn internal(message: impl std::fmt::Display) -> Self {
        Failure::new(Status::Internal, message)
    }
    /// What a template raises: its own words, line breaks included.
    pub fn raised(message: String) -> Self {
        Failure { status: Status::InvalidArgument, message }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Bytes {
    data: *const u8,
    size: usize,
}

impl Bytes {
    pub fn of(bytes: &[u8]) -> Bytes {
        Bytes { data: bytes.as_ptr(), size: bytes.len() }
    }

    /// # Safety
    /// `data` must point to `size` readable bytes that outlive the result, or `size` must be 0.
    pub unsafe fn as_slice<'a>(self) -> &'a [u8] {
        if self.size == 0 {
            return &[];
        }
        std::slice::from_raw_parts(self.data, self.size)
    }

    /// # Safety
    /// As `as_slice`.
    pub unsafe fn as_str<'a>(self, what: &str) -> Result<&'a str, Failure> {
        std::str::from_utf8(self.as_slice())
            .map_err(|e| Failure::argument(format!("{what}: not UTF-8 at byte {}", e.valid_up_to())))
    }
}

#[repr(C)]
pub struct Buffer {
    data: *mut u8,
    size: usize,
}

impl Buffer {
    pub fn empty() -> Self {
        Buffer { data: std::ptr::null_mut(), size: 0 }
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Self {
        if bytes.is_empty() {
            return Buffer::empty();
        }
        let boxed = bytes.into_boxed_slice();
        let size = boxed.len();
        Buffer { data: Box::into_raw(boxed).cast(), size }
    }
}

#[repr(C)]
pub struct Ids {
    ids: *mut u32,
    type_ids: *mut u32,
    size: usize,
}

impl Ids {
    pub fn new(ids: Vec<u32>, type_ids: Option<Vec<u32>>) -> Self {
        let size = ids.len();
        if size == 0 {
            return Ids { ids: std::ptr::null_mut(), type_ids: std::ptr::null_mut(), size };
        }
        let raw = |values: Vec<u32>| Box::into_raw(values.into_boxed_slice()).cast::<u32>();
        let type_ids = match type_ids {
            Some(values) => {
                assert_eq!(values.len(), size);
                raw(values)
            }
            None => std::ptr::null_mut(),
        };
        Ids { ids: raw(ids), type_ids, size }
    }
}

#[no_mangle]
pub extern "C" fn quern_buffer_free(buffer: Buffer) {
    if !buffer.data.is_null() {
        let slice = std::ptr::slice_from_raw_parts_mut(buffer.data, buffer.size);
        // SAFETY: made by Buffer::from with the same length.
        drop(unsafe { Box::from_raw(slice) });
    }
}

#[no_mangle]
pub extern "C" fn quern_ids_free(ids: Ids) {
    for data in [ids.ids, ids.type_ids] {
        if !data.is_null() {
            // SAFETY: made by Ids::new with the same length.
            drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(data, ids.size)) });
        }
    }
}

/// Runs `body`; a failure or a panic becomes a status and one line in `error`.
pub fn guard(error: *mut Buffer, body: impl FnOnce() -> Result<(), Failure>) -> Status {
    let failure = match quiet_unwind(body) {
        Ok(Ok(())) => return Status::Ok,
        Ok(Err(failure)) => failure,
        Err(message) => Failure::internal(message),
    };
    if !error.is_null() {
        // SAFETY: the caller owns `error`.
        unsafe { error.write(Buffer::from(failure.message.into_bytes())) };
    }
    failure.status
}

/// Runs `body` with panics turned into their message, and without the default report on stderr.
pub fn quiet_unwind<T>(body: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| std::panic::set_hook(Box::new(|_| {})));
    catch_unwind(AssertUnwindSafe(body)).map_err(|payload| {
        let text = payload
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| payload.downcast_ref::<&str>().copied())
            .unwrap_or("unknown panic");
        format!("text library failed: {text}")
    })
}
