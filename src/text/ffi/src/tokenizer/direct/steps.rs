//! Pre-tokenizers that are known, as cuts of a text.

use regex_automata::meta::Cache;
use serde_json::Value;
use std::borrow::Cow;
use unicode_categories::UnicodeCategories;

use super::normal::Normal;
use super::pattern::Pattern;
use crate::abi::Failure;

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

enum Step {
    Digits,
    DigitRuns,
    Pattern(Pattern),
    /// A space in front of each part that has none.
    Space,
    /// Parts between white space.
    WhiteSpace,
    /// White space goes, punctuation stands alone.
    Bert,
    Metaspace {
        replacement: char,
        prefix: Prefix,
        split: bool,
    },
    /// Before each run of U+2581, but where the model may merge it with the character before.
    SpaceRuns {
        joined: Vec<char>,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Prefix {
    Always,
    First,
    Never,
}

pub struct Steps {
    steps: Vec<Step>,
    /// The model wants each byte as a character of GPT-2's alphabet.
    pub bytes: bool,
}

/// A part of a text, and whether it is its beginning.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    pub text: &'a str,
    pub first: bool,
}

/// A longer list goes to the library: each step is a call within the one before it.
const STEPS_MAX: usize = 16;

type Sink<'a> = dyn FnMut(&str) -> Result<(), Failure> + 'a;

impl Steps {
    /// None when there is one that is not known.
    pub fn of(pre_tokenizer: &Value, normal: &Normal) -> Option<Steps> {
        let mut steps = Steps { steps: vec![], bytes: false };
        if !pre_tokenizer.is_null() {
            steps.add(pre_tokenizer, normal)?;
        }
        Some(steps)
    }

    fn add(&mut self, step: &Value, normal: &Normal) -> Option<()> {
        if let Some(list) = step["pretokenizers"].as_array() {
            return list.iter().try_for_each(|step| self.add(step, normal));
        }
        // What follows ByteLevel sees its alphabet in place of the text.
        if self.bytes || self.steps.len() >= STEPS_MAX {
            return None;
        }
        let flag = |name: &str, usual: bool| step[name].as_bool().unwrap_or(usual);
        match step["type"].as_str()? {
            "Digits" => self.steps.push(if flag("individual_digits", false) { Step::Digits } else { Step::DigitRuns }),
            "ByteLevel" => {
                if flag("add_prefix_space", true) {
                    self.steps.push(Step::Space);
                }
                if flag("use_regex", true) {
                    self.steps.push(Step::Pattern(Pattern::new(GPT2, false)?));
                }
                self.bytes = true;
            }
            "Split" => {
                let pattern = &step["pattern"];
                let has_no_spaces = normal.leaves_no_spaces() && self.steps.is_empty();
                if pattern["String"] == " " && has_no_spaces && !flag("invert", false) {
                    return Some(());
                }
                let matches_only = match (step["behavior"].as_str()?, flag("invert", false)) {
                    ("Isolated", _) => false,
                    ("Removed", true) => true,
                    _ => return None,
                };
                self.steps.push(Step::Pattern(Pattern::new(pattern["Regex"].as_str()?, matches_only)?));
            }
            "WhitespaceSplit" => self.steps.push(Step::WhiteSpace),
            "BertPreTokenizer" => self.steps.push(Step::Bert),
            "Metaspace" => {
                let prefix = match step["prepend_scheme"].as_str()? {
                    "always" => Prefix::Always,
                    "first" if normal.keeps_start() && self.keeps_start() => Prefix::First,
                    "never" => Prefix::Never,
                    _ => return None,
                };
                let replacement = step["replacement"].as_str()?.chars().next()?;
                self.steps.push(Step::Metaspace { replacement, prefix, split: flag("split", true) });
            }
            _ => return None,
        }
        Some(())
    }

    /// What the steps so far leave first comes from the start of their text, and from nothing else.
    fn keeps_start(&self) -> bool {
        !self.steps.iter().any(|step| matches!(step, Step::Space | Step::Metaspace { .. }))
    }

    pub fn add_space_runs(&mut self, joined: Vec<char>) {
        self.steps.push(Step::SpaceRuns { joined });
    }

    pub fn create_caches(&self) -> Vec<Option<Cache>> {
        let cache = |step: &Step| match step {
            Step::Pattern(pattern) => Some(pattern.create_cache()),
            _ => None,
        };
        self.steps.iter().map(cache).collect()
    }

    /// Calls `word` with each word of the part, in order; none is empty.
    pub fn split(&self, caches: &mut [Option<Cache>], part: Part, word: &mut Sink) -> Result<(), Failure> {
        split(&self.steps, caches, part, word)
    }
}

fn split(steps: &[Step], caches: &mut [Option<Cache>], part: Part, word: &mut Sink) -> Result<(), Failure> {
    if part.text.is_empty() {
        return Ok(());
    }
    let (Some((step, steps)), Some((cache, caches))) = (steps.split_first(), caches.split_first_mut()) else {
        return word(part.text);
    };
    let text = part.text;
    let mut next = |begin: usize, end: usize| {
        if steps.is_empty() {
            return if begin < end { word(&text[begin..end]) } else { Ok(()) };
        }
        split(steps, caches, Part { text: &text[begin..end], first: part.first && begin == 0 }, word)
    };
    match (step, cache) {
        (Step::Pattern(pattern), Some(cache)) => pattern.split(cache, text, next),
        (Step::Pattern(_), None) => Err(Failure::internal("a pattern has no cache")),
        (Step::Digits, _) => isolate(text, char::is_numeric, next),
        (Step::DigitRuns, _) => cut(text, |before, c| before.is_numeric() != c.is_numeric(), next),
        (Step::WhiteSpace, _) => between(text, next),
        (Step::Bert, _) => between(text, |begin, end| {
            let is_punctuation = |c: char| c.is_ascii_punctuation() || c.is_punctuation();
            isolate(&text[begin..end], is_punctuation, |from, to| next(begin + from, begin + to))
        }),
        (Step::SpaceRuns { joined }, _) => {
            cut(text, |before, c| c == '\u{2581}' && before != c && !joined.contains(&before), next)
        }
        (Step::Space, _) => {
            let spaced = if text.starts_with(' ') { Cow::Borrowed(text) } else { Cow::Owned(format!(" {text}")) };
            split(steps, caches, Part { text: &spaced, first: part.first }, word)
        }
        (Step::Metaspace { replacement, prefix, split: apart }, _) => {
            let mut spaced = text.replace(' ', replacement.encode_utf8(&mut [0; 4]));
            let wanted = *prefix == Prefix::Always || (*prefix == Prefix::First && part.first);
            if wanted && !spaced.starts_with(*replacement) {
                spaced.insert(0, *replacement);
            }
            if !apart {
                return split(steps, caches, Part { text: &spaced, first: part.first }, word);
            }
            cut(
                &spaced,
                |_, c| c == *replacement,
                |begin, end| {
                    let first = part.first && begin == 0;
                    split(steps, caches, Part { text: &spaced[begin..end], first }, word)
                },
            )
        }
    }
}

/// Parts that begin where `starts` says so of two characters.
fn cut(
    text: &str,
    starts: impl Fn(char, char) -> bool,
    mut part: impl FnMut(usize, usize) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut begin = 0;
    let mut before = None;
    for (at, c) in text.char_indices() {
        if before.is_some_and(|before| starts(before, c)) {
            part(begin, at)?;
            begin = at;
        }
        before = Some(c);
    }
    part(begin, text.len())
}

/// Each character that `alone` says, and what lies between them.
fn isolate(
    text: &str,
    alone: impl Fn(char) -> bool,
    mut part: impl FnMut(usize, usize) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut begin = 0;
    for (at, c) in text.char_indices().filter(|&(_, c)| alone(c)) {
        if begin < at {
            part(begin, at)?;
        }
        begin = at + c.len_utf8();
        part(at, begin)?;
    }
    if begin < text.len() {
        part(begin, text.len())?;
    }
    Ok(())
}

/// What lies between white space.
fn between(text: &str, mut part: impl FnMut(usize, usize) -> Result<(), Failure>) -> Result<(), Failure> {
    let mut begin = 0;
    for (at, c) in text.char_indices().filter(|(_, c)| c.is_whitespace()) {
        if begin < at {
            part(begin, at)?;
        }
        begin = at + c.len_utf8();
    }
    if begin < text.len() {
        part(begin, text.len())?;
    }
    Ok(())
}
