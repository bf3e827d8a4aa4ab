//! The exported functions of `quern_text_ffi.h`, part Grammar. Safety of all: as the header says.

use std::ffi::c_void;

use super::vocabulary::{Encode, Vocabulary};
use super::{Env, Grammar, Limits, Part, State};
use crate::abi::{guard, quiet_unwind, Buffer, Bytes, Failure, Ids, Status};

#[repr(C)]
pub struct VocabularyParts {
    tokens: *const Bytes,
    special: *const u8,
    num_tokens: usize,
    end_ids: *const u32,
    num_end_ids: usize,
    encode: Option<Encode>,
    context: *mut c_void,
}

#[repr(C)]
pub struct GrammarPart {
    name: Bytes,
    kind: i32,
    text: Bytes,
}

unsafe fn slice<'a, T>(data: *const T, size: usize) -> &'a [T] {
    if size == 0 {
        return &[];
    }
    std::slice::from_raw_parts(data, size)
}

#[no_mangle]
pub unsafe extern "C" fn quern_grammar_env_create(
    parts: *const VocabularyParts,
    limits: *const Limits,
    out: *mut *mut Env,
    error: *mut Buffer,
) -> Status {
    guard(error, || {
        let parts = &*parts;
        let tokens: Vec<&[u8]> = slice(parts.tokens, parts.num_tokens).iter().map(|token| token.as_slice()).collect();
        let special = slice(parts.special, parts.num_tokens);
        let end_ids = slice(parts.end_ids, parts.num_end_ids);
        let vocabulary = Vocabulary::new(&tokens, special, end_ids, parts.encode, parts.context)?;
        out.write(Box::into_raw(Box::new(Env::new(vocabulary, *limits)?)));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn quern_grammar_env_free(env: *mut Env) {
    if !env.is_null() {
        drop(Box::from_raw(env));
    }
}

#[no_mangle]
pub unsafe extern "C" fn quern_grammar_compile(
    env: *const Env,
    parts: *const GrammarPart,
    num_parts: usize,
    whitespace: Bytes,
    out: *mut *mut Grammar,
    error: *mut Buffer,
) -> Status {
    guard(error, || {
        let mut described = Vec::with_capacity(num_parts);
        for part in slice(parts, num_parts) {
            let kind = match part.kind {
                0 => Part::JsonSchema,
                1 => Part::Regex,
                2 => Part::Lark,
                other => return Err(Failure::argument(format!("{other} is no kind of grammar"))),
            };
            described.push((part.name.as_str("name")?, kind, part.text.as_str("grammar")?));
        }
        let grammar = (*env).compile(&described, whitespace.as_str("whitespace")?)?;
        out.write(Box::into_raw(Box::new(grammar)));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn quern_grammar_free(grammar: *mut Grammar) {
    if !grammar.is_null() {
        drop(Box::from_raw(grammar));
    }
}

#[no_mangle]
pub unsafe extern "C" fn quern_matcher_create(
    grammar: *const Grammar,
    out: *mut *mut State,
    error: *mut Buffer,
) -> Status {
    guard(error, || {
        out.write(Box::into_raw(Box::new((*grammar).matcher())));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn quern_matcher_copy(
    matcher: *const State,
    out: *mut *mut State,
    error: *mut Buffer,
) -> Status {
    guard(error, || {
        out.write(Box::into_raw(Box::new((*matcher).copy())));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn quern_matcher_free(matcher: *mut State) {
    if !matcher.is_null() {
        drop(Box::from_raw(matcher));
    }
}

#[no_mangle]
pub unsafe extern "C" fn quern_matcher_mask(
    matcher: *mut State,
    words: *mut u32,
    num_words: usize,
    error: *mut Buffer,
) -> Status {
    guard(error, || (*matcher).mask(std::slice::from_raw_parts_mut(words, num_words)))
}

#[no_mangle]
pub unsafe extern "C" fn quern_matcher_accept(
    matcher: *mut State,
    token: u32,
    accepted: *mut u8,
    error: *mut Buffer,
) -> Status {
    guard(error, || {
        accepted.write(u8::from((*matcher).accept(token)?));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn quern_matcher_allowed(
    matcher: *mut State,
    tokens: *const u32,
    num_tokens: usize,
    num_allowed: *mut usize,
    error: *mut Buffer,
) -> Status {
    guard(error, || {
        let tokens = if num_tokens == 0 { &[] } else { std::slice::from_raw_parts(tokens, num_tokens) };
        num_allowed.write((*matcher).allowed(tokens)?);
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn quern_matcher_rollback(matcher: *mut State, num_tokens: usize, error: *mut Buffer) -> Status {
    guard(error, || (*matcher).rollback(num_tokens))
}

#[no_mangle]
pub unsafe extern "C" fn quern_matcher_is_accepting(matcher: *mut State) -> u8 {
    u8::from(quiet_unwind(|| (*matcher).accepting()).unwrap_or(false))
}

#[no_mangle]
pub unsafe extern "C" fn quern_matcher_is_stopped(matcher: *const State) -> u8 {
    u8::from(quiet_unwind(|| (*matcher).stopped()).unwrap_or(true))
}

#[no_mangle]
pub unsafe extern "C" fn quern_matcher_forced(matcher: *mut State, ids: *mut Ids, error: *mut Buffer) -> Status {
    guard(error, || {
        ids.write(Ids::new((*matcher).forced(), None));
        Ok(())
    })
}
