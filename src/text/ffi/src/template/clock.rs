//! `strftime_now`: Python's `datetime.now().strftime`, which is the C library's with a few directives of its own.

use minijinja::{Error, ErrorKind};
use std::ffi::{c_char, CString};

const RESULT_BYTES_MAX: usize = 4096;

/// `now`: seconds since 1970 of the local wall clock.
pub fn format(now: i64, format: &str) -> Result<String, Error> {
    let invalid = |what: &str| Error::new(ErrorKind::InvalidOperation, format!("strftime_now: {what}"));
    // SAFETY: tm is plain data; gmtime_r fills it or returns null.
    let mut time: libc::tm = unsafe { std::mem::zeroed() };
    let seconds: libc::time_t = now;
    if unsafe { libc::gmtime_r(&seconds, &mut time) }.is_null() {
        return Err(invalid("the time is out of range"));
    }
    // A last character tells an empty result from one that did not fit.
    let c_format = CString::new(naive_directives(format) + ".").map_err(|_| invalid("the format contains NUL"))?;
    let mut result = vec![0u8; RESULT_BYTES_MAX];
    // SAFETY: the buffer has the length given, the format ends with NUL.
    let size = unsafe { libc::strftime(result.as_mut_ptr().cast::<c_char>(), result.len(), c_format.as_ptr(), &time) };
    if size == 0 {
        return Err(invalid("the result is too long"));
    }
    result.truncate(size - 1);
    String::from_utf8(result).map_err(|_| invalid("the result is not UTF-8"))
}

/// A time without zone prints %z and %Z as nothing; %f is microseconds, which this clock does not have.
fn naive_directives(format: &str) -> String {
    let mut result = String::with_capacity(format.len() + 1);
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        result.push_str(&rest[..at]);
        let directive = rest[at + 1..].chars().next();
        match directive {
            Some('z' | 'Z') => {}
            Some('f') => result.push_str("000000"),
            Some(c) => result.extend(['%', c]),
            None => result.push_str("%%"),
        }
        rest = &rest[at + 1 + directive.map_or(0, char::len_utf8)..];
    }
    result + rest
}
