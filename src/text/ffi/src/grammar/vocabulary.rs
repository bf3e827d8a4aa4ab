//! A vocabulary as the grammar library wants it: bytes of every token, and text to tokens where the caller can do it.

use std::ffi::c_void;
use std::sync::Arc;

use llguidance::toktrie::{TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv, INVALID_TOKEN};

use crate::abi::{Bytes, Failure};

/// Writes at most `capacity` ids; the number of ids, or `usize::MAX` when the text cannot be written in tokens.
pub type Encode = unsafe extern "C" fn(context: *mut c_void, text: Bytes, ids: *mut u32, capacity: usize) -> usize;

pub struct Vocabulary {
    trie: TokTrie,
    encode: Option<Encode>,
    context: *mut c_void,
}

// SAFETY: the header asks for a context that any thread may use.
unsafe impl Send for Vocabulary {}
unsafe impl Sync for Vocabulary {}

impl Vocabulary {
    pub fn new(
        tokens: &[&[u8]],
        special: &[u8],
        end_ids: &[u32],
        encode: Option<Encode>,
        context: *mut c_void,
    ) -> Result<Vocabulary, Failure> {
        if tokens.is_empty() || tokens.len() != special.len() {
            return Err(Failure::argument("the vocabulary is empty"));
        }
        if let Some(id) = end_ids.iter().find(|id| **id as usize >= tokens.len()) {
            return Err(Failure::argument(format!("end token {id} is outside the vocabulary of {}", tokens.len())));
        }
        let words: Vec<Vec<u8>> = tokens.iter().zip(special).map(|(bytes, special)| word(bytes, *special != 0)).collect();
        let first_end = end_ids.first().copied().unwrap_or(INVALID_TOKEN);
        let mut trie = TokTrie::from(&TokRxInfo::new(words.len() as u32, first_end), &words);
        if !end_ids.is_empty() {
            trie = trie.with_eos_tokens(end_ids);
        }
        Ok(Vocabulary { trie, encode, context })
    }

    pub fn size(&self) -> usize {
        self.trie.vocab_size()
    }

    pub fn into_env(self) -> TokEnv {
        Arc::new(self)
    }

    fn encode(&self, text: &[u8]) -> Option<Vec<TokenId>> {
        let encode = self.encode?;
        let mut ids = vec![0u32; text.len() + 1];
        // SAFETY: the header's contract of `encode`; it writes at most `capacity` ids.
        let count = unsafe { encode(self.context, Bytes::of(text), ids.as_mut_ptr(), ids.len()) };
        if count > ids.len() {
            return None;
        }
        ids.truncate(count);
        let spelled = ids.iter().all(|id| (*id as usize) < self.size()) && self.trie.decode_raw(&ids) == text;
        spelled.then_some(ids)
    }
}

/// A special token is its name behind a marker that no text contains; a plain token that begins with that byte cannot
/// be part of UTF-8 text and takes no part.
fn word(bytes: &[u8], special: bool) -> Vec<u8> {
    if special && !bytes.is_empty() {
        return [&[TokTrie::SPECIAL_TOKEN_MARKER], bytes].concat();
    }
    if bytes.first() == Some(&TokTrie::SPECIAL_TOKEN_MARKER) {
        return vec![];
    }
    bytes.to_vec()
}

impl TokenizerEnv for Vocabulary {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, text: &[u8]) -> Vec<TokenId> {
        let whole = std::str::from_utf8(text).map_or_else(|e| e.valid_up_to(), |valid| valid.len());
        let mut ids = self.encode(&text[..whole]).unwrap_or_else(|| self.trie.greedy_tokenize(&text[..whole]));
        ids.extend(self.trie.greedy_tokenize(&text[whole..]));
        ids
    }

    fn tokenize_is_canonical(&self) -> bool {
        self.encode.is_some()
    }
}
