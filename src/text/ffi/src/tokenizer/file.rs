//! `tokenizer.json`, read in one pass: the library's own reader copies a large vocabulary several times.

use ahash::AHashMap;
use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use tokenizers::{AddedToken, DecoderWrapper, NormalizerWrapper, PostProcessorWrapper, PreTokenizerWrapper};

#[derive(Deserialize)]
pub struct File {
    #[serde(default)]
    pub added_tokens: Vec<AddedEntry>,
    pub normalizer: Option<NormalizerWrapper>,
    pub pre_tokenizer: Option<PreTokenizerWrapper>,
    pub post_processor: Option<PostProcessorWrapper>,
    pub decoder: Option<DecoderWrapper>,
    pub model: ModelFile,
}

#[derive(Deserialize)]
pub struct AddedEntry {
    pub id: u32,
    #[serde(flatten)]
    pub token: AddedToken,
}

/// All kinds of models; `dropout`, a thing of training, is not read.
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct ModelFile {
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub unk_token: Option<String>,
    pub continuing_subword_prefix: Option<String>,
    pub end_of_word_suffix: Option<String>,
    pub fuse_unk: Option<bool>,
    pub byte_fallback: Option<bool>,
    pub ignore_merges: Option<bool>,
    pub max_input_chars_per_word: Option<usize>,
    pub unk_id: Option<usize>,
    pub vocab: Vocab,
    pub merges: Option<Merges>,
}

pub enum Vocab {
    Ids(AHashMap<String, u32>),
    Scores(Vec<(String, f64)>),
}

impl Default for Vocab {
    fn default() -> Self {
        Vocab::Ids(AHashMap::new())
    }
}

impl<'de> Deserialize<'de> for Vocab {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(VocabVisitor)
    }
}

struct VocabVisitor;

impl<'de> Visitor<'de> for VocabVisitor {
    type Value = Vocab;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a map of tokens to ids or a list of tokens with scores")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vocab, A::Error> {
        let mut ids = AHashMap::with_capacity(1 << 16);
        while let Some((token, id)) = map.next_entry::<String, u32>()? {
            ids.insert(token, id);
        }
        Ok(Vocab::Ids(ids))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vocab, A::Error> {
        let mut scores = vec![];
        while let Some(entry) = seq.next_element()? {
            scores.push(entry);
        }
        Ok(Vocab::Scores(scores))
    }
}

/// Pairs by rank, written as "left right" or as ["left", "right"].
pub struct Merges(pub Vec<(String, String)>);

impl<'de> Deserialize<'de> for Merges {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(MergesVisitor)
    }
}

struct MergesVisitor;

impl<'de> Visitor<'de> for MergesVisitor {
    type Value = Merges;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a list of merges")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Merges, A::Error> {
        let mut merges = Vec::with_capacity(1 << 16);
        while let Some(merge) = seq.next_element_seed(MergeSeed)? {
            merges.push(merge);
        }
        Ok(Merges(merges))
    }
}

struct MergeSeed;

impl<'de> DeserializeSeed<'de> for MergeSeed {
    type Value = (String, String);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for MergeSeed {
    type Value = (String, String);

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a merge of two tokens")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        split_merge(text).ok_or_else(|| E::custom(format!("merge '{text}' is not two tokens with a space between")))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let left = seq.next_element()?.ok_or_else(|| de::Error::invalid_length(0, &self))?;
        let right = seq.next_element()?.ok_or_else(|| de::Error::invalid_length(1, &self))?;
        if seq.next_element::<de::IgnoredAny>()?.is_some() {
            return Err(de::Error::invalid_length(3, &self));
        }
        Ok((left, right))
    }
}

/// "left right" as its two tokens; a token may begin with a space but has none further on.
pub fn split_merge(text: &str) -> Option<(String, String)> {
    let first = text.chars().next()?.len_utf8();
    let (left, right) = text.split_at(first + text[first..].find(' ')?);
    let right = &right[1..];
    (!right.is_empty()).then(|| (left.to_owned(), right.to_owned()))
}
