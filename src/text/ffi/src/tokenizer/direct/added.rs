//! Added tokens in a text, found as the library finds them.

use daachorse::{DoubleArrayAhoCorasick, DoubleArrayAhoCorasickBuilder, MatchKind};
use tokenizers::AddedVocabulary;

use crate::abi::Failure;

pub struct AddedTokens {
    /// Matched in the text as it came.
    raw: Option<Matcher>,
    /// Matched in the text as the normalizer left it.
    normalized: Option<Matcher>,
}

struct Matcher {
    trie: DoubleArrayAhoCorasick<u32>,
    rules: Vec<Rules>,
}

struct Rules {
    id: u32,
    single_word: bool,
    takes_left: bool,
    takes_right: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    pub begin: usize,
    pub end: usize,
    pub id: u32,
}

impl AddedTokens {
    pub fn of(added: &AddedVocabulary) -> Result<AddedTokens, Failure> {
        let matcher = |normalized| {
            let tokens = added.get_added_tokens_decoder();
            let mut patterns = vec![];
            let mut rules = vec![];
            for (&id, token) in tokens.iter().filter(|(_, token)| token.normalized == normalized) {
                let other = if normalized { added.simple_id_to_token(id) } else { None };
                patterns.push(other.unwrap_or_else(|| token.content.clone()));
                rules.push(Rules {
                    id,
                    single_word: token.single_word,
                    takes_left: token.lstrip,
                    takes_right: token.rstrip,
                });
            }
            if patterns.is_empty() {
                return Ok(None);
            }
            let trie = DoubleArrayAhoCorasickBuilder::new()
                .match_kind(MatchKind::LeftmostLongest)
                .build_with_values(patterns.into_iter().zip(0u32..))
                .map_err(Failure::file)?;
            Ok(Some(Matcher { trie, rules }))
        };
        Ok(AddedTokens { raw: matcher(false)?, normalized: matcher(true)? })
    }

    pub fn raw(&self, text: &str) -> Vec<Found> {
        self.raw.as_ref().map_or(vec![], |matcher| matcher.find(text))
    }

    pub fn normalized(&self, text: &str) -> Vec<Found> {
        self.normalized.as_ref().map_or(vec![], |matcher| matcher.find(text))
    }

    pub fn matches_normalized(&self) -> bool {
        self.normalized.is_some()
    }
}

impl Matcher {
    fn find(&self, text: &str) -> Vec<Found> {
        let mut found: Vec<Found> = vec![];
        for matched in self.trie.leftmost_find_iter(text) {
            let rules = &self.rules[matched.value() as usize];
            let (mut begin, mut end) = (matched.start(), matched.end());
            let is_word = |c: Option<char>| c.is_some_and(regex_syntax::is_word_character);
            if rules.single_word && (is_word(text[..begin].chars().next_back()) || is_word(text[end..].chars().next()))
            {
                continue;
            }
            let at = found.last().map_or(0, |last| last.end);
            if rules.takes_left {
                // The spaces after the token before may be that one's already; looking no further keeps this linear.
                begin = if at < begin { at + text[at..begin].trim_end().len() } else { at };
            }
            if rules.takes_right {
                // What the token before has taken is white space.
                end = text.len() - text[end.max(at)..].trim_start().len();
            }
            found.push(Found { begin, end, id: rules.id });
        }
        found
    }
}
