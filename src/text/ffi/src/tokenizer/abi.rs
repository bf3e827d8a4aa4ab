//! The exported functions of `quern_text_ffi.h`, part Tokenizer. Safety of all: as the header says.

use super::build::Vocabulary;
use super::{EncodeOptions, Tokenizer, Way};
use crate::abi::{guard, quiet_unwind, Buffer, Bytes, Failure, Ids, Status};

#[repr(C)]
pub struct VocabularyParts {
    config: Bytes,
    tokens: *const Bytes,
    num_tokens: usize,
    scores: *const f64,
    in_text: *const u8,
    merges: *const Bytes,
    num_merges: usize,
    by_library: u8,
}

fn way(by_library: u8) -> Way {
    if by_library == 0 {
        Way::Usual
    } else {
        Way::Library
    }
}

#[repr(C)]
pub struct Options {
    add_special: u8,
    parse_special: u8,
    has_pair: u8,
    want_type_ids: u8,
    double_start: u8,
    max_length: i64,
    literal: *const [usize; 2],
    num_literal: usize,
}

unsafe fn slice<'a, T>(data: *const T, size: usize) -> Option<&'a [T]> {
    (!data.is_null()).then(|| std::slice::from_raw_parts(data, size))
}

unsafe fn texts<'a>(data: *const Bytes, size: usize, what: &str) -> Result<Vec<&'a str>, Failure> {
    let items = slice(data, size).unwrap_or(&[]);
    let text =
        |(i, bytes): (usize, &Bytes)| bytes.as_str("").map_err(|_| Failure::file(format!("{what} {i} is not UTF-8")));
    items.iter().enumerate().map(text).collect()
}

#[no_mangle]
pub unsafe extern "C" fn quern_tokenizer_from_json(
    json: Bytes,
    by_library: u8,
    out: *mut *mut Tokenizer,
    error: *mut Buffer,
) -> Status {
    guard(error, || {
        out.write(Box::into_raw(Box::new(Tokenizer::from_json(json.as_slice(), way(by_library))?)));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn quern_tokenizer_from_vocabulary(
    parts: *const VocabularyParts,
    out: *mut *mut Tokenizer,
    error: *mut Buffer,
) -> Status {
    guard(error, || {
        let parts = &*parts;
        let vocabulary = Vocabulary {
            tokens: texts(parts.tokens, parts.num_tokens, "token")?,
            scores: slice(parts.scores, parts.num_tokens),
            in_text: slice(parts.in_text, parts.num_tokens),
            merges: texts(parts.merges, parts.num_merges, "merge")?,
        };
        let tokenizer = Tokenizer::from_vocabulary(parts.config.as_slice(), &vocabulary, way(parts.by_library))?;
        out.write(Box::into_raw(Box::new(tokenizer)));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn quern_tokenizer_set_post_processor(
    tokenizer: *mut Tokenizer,
    json: Bytes,
    error: *mut Buffer,
) -> Status {
    guard(error, || (*tokenizer).set_post_processor(json.as_slice()))
}

#[no_mangle]
pub unsafe extern "C" fn quern_tokenizer_free(tokenizer: *mut Tokenizer) {
    if !tokenizer.is_null() {
        drop(Box::from_raw(tokenizer));
    }
}

#[no_mangle]
pub unsafe extern "C" fn quern_tokenizer_encode(
    tokenizer: *const Tokenizer,
    text: Bytes,
    pair: Bytes,
    options: *const Options,
    out: *mut Ids,
    error: *mut Buffer,
) -> Status {
    guard(error, || {
        let options = &*options;
        let text = text.as_str("text")?;
        let pair = (options.has_pair != 0).then(|| pair.as_str("second text")).transpose()?;
        let encode_options = EncodeOptions {
            add_special: options.add_special != 0,
            parse_special: options.parse_special != 0,
            literal: slice(options.literal, options.num_literal).unwrap_or(&[]),
            double_start: options.double_start != 0,
            max_length: usize::try_from(options.max_length).ok(),
        };
        let (ids, type_ids) = (*tokenizer).encode(text, pair, encode_options)?;
        out.write(Ids::new(ids, (options.want_type_ids != 0).then_some(type_ids)));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn quern_tokenizer_special_spans(
    tokenizer: *const Tokenizer,
    text: Bytes,
    out: *mut Ids,
    error: *mut Buffer,
) -> Status {
    guard(error, || {
        let spans = (*tokenizer).special_spans(text.as_str("text")?);
        let bounds: Result<Vec<u32>, _> = spans.into_iter().flatten().map(u32::try_from).collect();
        out.write(Ids::new(bounds.map_err(|_| Failure::exhausted("the text is over 4 GiB"))?, None));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn quern_tokenizer_decode(
    tokenizer: *const Tokenizer,
    ids: *const u32,
    num_ids: usize,
    skip_special: u8,
    out: *mut Buffer,
    error: *mut Buffer,
) -> Status {
    guard(error, || {
        let ids = slice(ids, num_ids).unwrap_or(&[]);
        let text = (*tokenizer).decode(ids, skip_special != 0)?;
        out.write(Buffer::from(text.into_bytes()));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn quern_tokenizer_piece(tokenizer: *const Tokenizer, id: u32) -> Buffer {
    let piece = quiet_unwind(|| (*tokenizer).piece(id).unwrap_or_default());
    Buffer::from(piece.unwrap_or_default().into_bytes())
}

#[no_mangle]
pub unsafe extern "C" fn quern_tokenizer_token_bytes(tokenizer: *const Tokenizer, id: u32) -> Buffer {
    Buffer::from(quiet_unwind(|| (*tokenizer).token_bytes(id)).unwrap_or_default())
}

#[no_mangle]
pub unsafe extern "C" fn quern_tokenizer_text_bytes(tokenizer: *const Tokenizer, id: u32, at_start: u8) -> Buffer {
    Buffer::from(quiet_unwind(|| (*tokenizer).text_bytes(id, at_start != 0)).unwrap_or_default())
}

#[no_mangle]
pub unsafe extern "C" fn quern_tokenizer_token_id(tokenizer: *const Tokenizer, piece: Bytes) -> i64 {
    let id = quiet_unwind(|| (*tokenizer).token_id(piece.as_str("piece").ok()?));
    id.ok().flatten().map_or(-1, i64::from)
}

#[no_mangle]
pub unsafe extern "C" fn quern_tokenizer_is_special(tokenizer: *const Tokenizer, id: u32) -> u8 {
    u8::from((*tokenizer).is_special(id))
}

#[no_mangle]
pub unsafe extern "C" fn quern_tokenizer_vocab_size(tokenizer: *const Tokenizer) -> u32 {
    (*tokenizer).vocab_size()
}

#[no_mangle]
pub unsafe extern "C" fn quern_tokenizer_strips_leading_space(tokenizer: *const Tokenizer) -> u8 {
    u8::from((*tokenizer).strips_leading_space())
}

#[no_mangle]
pub unsafe extern "C" fn quern_tokenizer_start_token(tokenizer: *const Tokenizer) -> i64 {
    (*tokenizer).start_token().map_or(-1, i64::from)
}
