//! The exported functions of `quern_text_ffi.h`, part Chat template. Safety of all: as the header says.

use std::time::Duration;

use super::{Limits, Template};
use crate::abi::{guard, Buffer, Bytes, Failure, Ids, Status};

#[repr(C)]
pub struct LimitNumbers {
    fuel: u64,
    output_bytes: u64,
    recursion: u64,
    milliseconds: u64,
}

#[no_mangle]
pub unsafe extern "C" fn quern_template_create(
    text: Bytes,
    limits: *const LimitNumbers,
    out: *mut *mut Template,
    error: *mut Buffer,
) -> Status {
    guard(error, || {
        let limits = &*limits;
        let limits = Limits {
            fuel: limits.fuel,
            output_bytes: limits.output_bytes as usize,
            recursion: limits.recursion as usize,
            time: Duration::from_millis(limits.milliseconds),
        };
        let text = text.as_str("template").map_err(|failure| Failure::file(failure.message))?;
        out.write(Box::into_raw(Box::new(Template::create(text, limits)?)));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn quern_template_free(template: *mut Template) {
    if !template.is_null() {
        drop(Box::from_raw(template));
    }
}

#[no_mangle]
pub unsafe extern "C" fn quern_template_render(
    template: *const Template,
    variables: Bytes,
    now: i64,
    text: *mut Buffer,
    spans: *mut Ids,
    error: *mut Buffer,
) -> Status {
    guard(error, || {
        let rendered = (*template).render(variables.as_slice(), now)?;
        text.write(Buffer::from(rendered.text.into_bytes()));
        spans.write(Ids::new(rendered.spans, None));
        Ok(())
    })
}
