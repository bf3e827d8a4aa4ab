//! From text to ids in one pass, for the tokenizers whose every step is known. The library records where each character
//! of each word came from, which nobody asks for here and which takes most of its time; it stays the reference, and
//! does what is not known.

mod added;
mod bpe;
mod normal;
mod pattern;
mod steps;
mod words;

use regex_automata::meta::Cache;
use std::sync::Mutex;
use tokenizers::{AddedVocabulary, Model, ModelWrapper, NormalizerWrapper, PreTokenizerWrapper};

use added::AddedTokens;
pub use added::Found;
pub use bpe::{Bpe, BpeRoom, Unknown};
use normal::Normal;
use steps::{Part, Steps};
use words::Words;

use super::pieces::byte_char;
use crate::abi::Failure;

/// A byte that no token's text has, for what must not match.
const MASK: u8 = 1;
/// Rooms kept for the calls to come; more at once make their own.
const ROOMS_MAX: usize = 16;
/// A room that grew beyond this is not kept.
const ROOM_BYTES_MAX: usize = 1 << 20;

pub struct Direct {
    normal: Normal,
    steps: Steps,
    all: AddedTokens,
    plain: AddedTokens,
    rooms: Mutex<Vec<Room>>,
}

/// What one call works in.
struct Room {
    caches: Vec<Option<Cache>>,
    bpe: BpeRoom,
    words: Words,
}

/// What words become ids by.
#[derive(Clone, Copy)]
pub struct WordModel<'a> {
    pub model: &'a ModelWrapper,
    pub bpe: Option<&'a Bpe>,
}

/// Where to look for added tokens.
#[derive(Clone, Copy)]
pub enum Looking<'a> {
    /// For those that are not special, everywhere.
    Plain,
    /// For all, but in these bytes.
    All { literal: &'a [[usize; 2]] },
}

impl Direct {
    /// None when a step is not known.
    pub fn new(
        normalizer: Option<&NormalizerWrapper>,
        pre_tokenizer: Option<&PreTokenizerWrapper>,
        bpe: Option<&Bpe>,
        all: &AddedVocabulary,
        plain: &AddedVocabulary,
    ) -> Result<Option<Direct>, Failure> {
        let normal = Normal::of(normalizer);
        let Ok(json) = serde_json::to_value(pre_tokenizer) else { return Ok(None) };
        let Some(mut steps) = Steps::of(&json, &normal) else { return Ok(None) };
        if steps.bytes && bpe.is_none() {
            return Ok(None);
        }
        if let (false, Some(joined)) = (steps.bytes, bpe.and_then(|bpe| bpe.before_spaces.as_ref())) {
            steps.add_space_runs(joined.clone());
        }
        let (all, plain) = (AddedTokens::of(all)?, AddedTokens::of(plain)?);
        Ok(Some(Direct { normal, steps, all, plain, rooms: Mutex::default() }))
    }

    /// Where added tokens match in `text`; None when only the library can say.
    pub fn found(&self, normalizer: Option<&NormalizerWrapper>, text: &str) -> Option<Vec<Found>> {
        let raw = self.all.raw(text);
        if !self.all.matches_normalized() {
            return Some(raw);
        }
        let mut found = vec![];
        for part in Gaps::of(text.len(), &raw) {
            match part {
                Gap::Token(token) => found.push(token),
                Gap::Text { begin, end } => {
                    // A text that the normalizer changes has other places.
                    let part = &text[begin..end];
                    if *self.normal.apply(normalizer, part) != *part {
                        return None;
                    }
                    let moved = |f: Found| Found { begin: f.begin + begin, end: f.end + begin, id: f.id };
                    found.extend(self.all.normalized(part).into_iter().map(moved));
                }
            }
        }
        Some(found)
    }

    /// None when only the library can say.
    pub fn encode(
        &self,
        words: WordModel,
        normalizer: Option<&NormalizerWrapper>,
        text: &str,
        looking: Looking,
    ) -> Result<Option<Vec<u32>>, Failure> {
        let (tokens, normalized) = match looking {
            Looking::Plain => (self.plain.raw(text), Some(&self.plain)),
            Looking::All { literal: [] } => (self.all.raw(text), Some(&self.all)),
            Looking::All { literal } => match self.found(normalizer, &masked(text, literal)?) {
                Some(found) => (found, None),
                None => return Ok(None),
            },
        };
        let normalized = normalized.filter(|added| added.matches_normalized());
        let mut room = self.take_room();
        let mut ids = Vec::with_capacity(text.len() / 4 + 8);
        for gap in Gaps::of(text.len(), &tokens) {
            let (begin, end) = match gap {
                Gap::Text { begin, end } => (begin, end),
                Gap::Token(token) => {
                    ids.push(token.id);
                    continue;
                }
            };
            let part = self.normal.apply(normalizer, &text[begin..end]);
            let tokens = normalized.map_or(vec![], |added| added.normalized(&part));
            for gap in Gaps::of(part.len(), &tokens) {
                match gap {
                    Gap::Token(token) => ids.push(token.id),
                    Gap::Text { begin: at, end } => {
                        let part = Part { text: &part[at..end], first: begin == 0 && at == 0 };
                        self.encode_part(words, part, &mut room, &mut ids)?;
                    }
                }
            }
        }
        self.give_back(room);
        Ok(Some(ids))
    }

    fn encode_part(&self, to_ids: WordModel, part: Part, room: &mut Room, ids: &mut Vec<u32>) -> Result<(), Failure> {
        let Room { caches, bpe, words } = room;
        self.steps.split(caches, part, &mut |word| {
            let key = Words::key(word.as_bytes());
            if let Some(known) = key.as_ref().and_then(|key| words.find(key)) {
                ids.extend_from_slice(known);
                return Ok(());
            }
            let at = ids.len();
            to_ids.encode(word, self.steps.bytes, bpe, ids)?;
            if let Some(key) = key {
                words.keep(&key, &ids[at..]);
            }
            Ok(())
        })
    }

    fn take_room(&self) -> Room {
        let kept = self.rooms.lock().ok().and_then(|mut rooms| rooms.pop());
        kept.unwrap_or_else(|| Room {
            caches: self.steps.create_caches(),
            bpe: BpeRoom::default(),
            words: Words::default(),
        })
    }

    fn give_back(&self, mut room: Room) {
        if room.bpe.bytes() > ROOM_BYTES_MAX {
            room.bpe = BpeRoom::default();
        }
        if let Ok(mut rooms) = self.rooms.lock() {
            if rooms.len() < ROOMS_MAX {
                rooms.push(room);
            }
        }
    }
}

impl WordModel<'_> {
    /// Adds the tokens of a word, which is not empty; `bytes`: the model wants its bytes in GPT-2's alphabet.
    fn encode(&self, word: &str, bytes: bool, room: &mut BpeRoom, ids: &mut Vec<u32>) -> Result<(), Failure> {
        let Some(bpe) = self.bpe else {
            let tokens = self.model.tokenize(word).map_err(Failure::internal)?;
            ids.extend(tokens.iter().map(|token| token.id));
            return Ok(());
        };
        if !bytes {
            return self.merge(bpe, word, room, ids);
        }
        if !bpe.ignore_merges && bpe.encode_bytes(word.as_bytes(), room, ids) {
            return Ok(());
        }
        let spelled: String = word.bytes().map(byte_char).collect();
        self.merge(bpe, &spelled, room, ids)
    }

    /// As `encode`, of a word that is spelled as the model wants it.
    pub fn merge(&self, bpe: &Bpe, word: &str, room: &mut BpeRoom, ids: &mut Vec<u32>) -> Result<(), Failure> {
        if bpe.ignore_merges {
            if let Some(id) = self.model.token_to_id(word) {
                ids.push(id);
                return Ok(());
            }
        }
        bpe.encode_chars(word, room, ids)
    }
}

/// The text with what is literal made such that no token matches in it.
pub fn masked(text: &str, literal: &[[usize; 2]]) -> Result<String, Failure> {
    let mut masked = text.as_bytes().to_vec();
    for &[begin, end] in literal {
        let inside = masked.get_mut(begin..end).ok_or_else(|| Failure::argument("a literal range is outside"))?;
        inside.fill(MASK);
    }
    String::from_utf8(masked).map_err(|_| Failure::argument("a literal range cuts a character"))
}

/// Found tokens and what lies between them, in order.
struct Gaps<'a> {
    size: usize,
    at: usize,
    found: &'a [Found],
}

enum Gap {
    Token(Found),
    Text { begin: usize, end: usize },
}

impl<'a> Gaps<'a> {
    fn of(size: usize, found: &'a [Found]) -> Gaps<'a> {
        Gaps { size, at: 0, found }
    }
}

impl Iterator for Gaps<'_> {
    type Item = Gap;

    fn next(&mut self) -> Option<Gap> {
        let begin = self.at;
        match self.found.split_first() {
            Some((token, _)) if begin < token.begin => {
                self.at = token.begin;
                Some(Gap::Text { begin, end: token.begin })
            }
            Some((&token, rest)) => {
                self.found = rest;
                self.at = token.end;
                Some(Gap::Token(token))
            }
            None => {
                self.at = self.size;
                (begin < self.size).then_some(Gap::Text { begin, end: self.size })
            }
        }
    }
}
