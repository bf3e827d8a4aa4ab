//! Normalizers that are known, without a record of where each character came from; the library's own for the others.

use serde_json::Value;
use std::borrow::Cow;
use tokenizers::{NormalizedString, Normalizer, NormalizerWrapper};
use unicode_normalization_alignments::{is_nfc_quick, IsNormalized, UnicodeNormalization};

const SPACE: &str = "\u{2581}";

pub enum Normal {
    Same,
    Nfc,
    /// U+2581 for spaces, and one in front where asked.
    Spaces {
        prefix: bool,
    },
    /// BERT's, of ASCII. It changes each character by itself and only reorders marks that follow one another, so what
    /// lies between runs of ASCII can be left to the library.
    Bert {
        clean: bool,
        lowercase: bool,
    },
    Other,
}

impl Normal {
    pub fn of(normalizer: Option<&NormalizerWrapper>) -> Normal {
        let Some(normalizer) = normalizer else { return Normal::Same };
        if matches!(normalizer, NormalizerWrapper::Precompiled(_)) {
            return Normal::Other;
        }
        let json = serde_json::to_value(normalizer).unwrap_or(Value::Null);
        let steps = match json["normalizers"].as_array() {
            Some(steps) => &steps[..],
            None => std::slice::from_ref(&json),
        };
        let is_prefix = |step: &Value| step["type"] == "Prepend" && step["prepend"] == SPACE;
        let is_replace =
            |step: &Value| step["type"] == "Replace" && step["pattern"]["String"] == " " && step["content"] == SPACE;
        match steps {
            [] => Normal::Same,
            [step] if step["type"] == "NFC" => Normal::Nfc,
            [step] if step["type"] == "BertNormalizer" => {
                Normal::Bert { clean: step["clean_text"] == true, lowercase: step["lowercase"] == true }
            }
            [step] if is_replace(step) => Normal::Spaces { prefix: false },
            [first, second] if is_prefix(first) && is_replace(second) => Normal::Spaces { prefix: true },
            _ => Normal::Other,
        }
    }

    /// No spaces are left in what it makes.
    pub fn leaves_no_spaces(&self) -> bool {
        matches!(self, Normal::Spaces { .. })
    }

    /// Each character comes from one of the text, and the first from the first.
    pub fn keeps_start(&self) -> bool {
        matches!(self, Normal::Same | Normal::Spaces { prefix: false })
    }

    /// `text` is not empty.
    pub fn apply<'a>(&self, normalizer: Option<&NormalizerWrapper>, text: &'a str) -> Cow<'a, str> {
        match self {
            Normal::Same => Cow::Borrowed(text),
            Normal::Nfc if text.is_ascii() || is_nfc_quick(text.chars()) == IsNormalized::Yes => Cow::Borrowed(text),
            Normal::Nfc => text.nfc().map(|(c, _)| c).collect(),
            Normal::Spaces { prefix } => {
                let mut result = String::with_capacity(text.len() + text.len() / 2 + 3);
                if *prefix {
                    result.push_str(SPACE);
                }
                for (i, part) in text.split(' ').enumerate() {
                    if i > 0 {
                        result.push_str(SPACE);
                    }
                    result.push_str(part);
                }
                Cow::Owned(result)
            }
            Normal::Bert { clean, lowercase } => {
                let mut result = String::with_capacity(text.len());
                let mut rest = text;
                while !rest.is_empty() {
                    let ascii = rest.bytes().position(|byte| !byte.is_ascii()).unwrap_or(rest.len());
                    let (run, behind) = rest.split_at(ascii);
                    result.extend(run.chars().filter_map(|c| bert_ascii(c, *clean, *lowercase)));
                    // Marks are put in order across control characters, which vanish.
                    let ends = |byte: u8| byte.is_ascii() && !byte.is_ascii_control();
                    let other = behind.bytes().position(ends).unwrap_or(behind.len());
                    let (run, behind) = behind.split_at(other);
                    if !run.is_empty() {
                        result.push_str(&by_library(normalizer, run));
                    }
                    rest = behind;
                }
                Cow::Owned(result)
            }
            Normal::Other => Cow::Owned(by_library(normalizer, text)),
        }
    }
}

fn bert_ascii(c: char, clean: bool, lowercase: bool) -> Option<char> {
    let c = match c {
        '\t' | '\n' | '\r' if clean => ' ',
        c if clean && c.is_ascii_control() => return None,
        c => c,
    };
    Some(if lowercase { c.to_ascii_lowercase() } else { c })
}

fn by_library(normalizer: Option<&NormalizerWrapper>, text: &str) -> String {
    let mut normalized = NormalizedString::from(text);
    // The library goes on with what it has, too.
    let _ = normalizer.map(|normalizer| normalizer.normalize(&mut normalized));
    normalized.get().to_owned()
}
