//! Special tokens that a person typed stay text, while those a template wrote count.

use tokenizers::tokenizer::normalizer::Range;
use tokenizers::tokenizer::pre_tokenizer::Split;
use tokenizers::{Normalizer, OffsetReferential, OffsetType, PreTokenizedString, Token};

use super::direct::masked;
use super::Tokenizer;
use crate::abi::Failure;

impl Tokenizer {
    /// Where special tokens match in `text`, as bytes.
    pub fn special_spans(&self, text: &str) -> Vec<[usize; 2]> {
        if let Some(found) = self.direct.as_ref().and_then(|direct| direct.found(self.normalizer.as_ref(), text)) {
            let special = found.into_iter().filter(|found| self.is_special(found.id));
            return special.map(|found| [found.begin, found.end]).collect();
        }
        let matches = self.matches(text).into_iter();
        matches.filter(|(_, token)| self.is_special(token.id)).map(|(span, _)| span).collect()
    }

    /// The first steps of encoding: added tokens found everywhere but in `literal`, the rest normalized.
    pub(super) fn split_around(&self, text: &str, literal: &[[usize; 2]]) -> Result<PreTokenizedString, Failure> {
        let masked = masked(text, literal)?;
        let found = self.matches(&masked);

        let mut pieces: PreTokenizedString = text.into();
        pieces
            .split(|_, whole| {
                let cut = |begin: usize, end: usize| {
                    whole.slice(Range::Original(begin..end)).ok_or("a token's offsets cut a character")
                };
                let mut splits: Vec<Split> = vec![];
                let mut at = 0;
                for ([begin, end], token) in &found {
                    if at < *begin {
                        splits.push(cut(at, *begin)?.into());
                    }
                    splits.push((cut(*begin, *end)?, Some(vec![token.clone()])).into());
                    at = *end;
                }
                if at < text.len() {
                    splits.push(cut(at, text.len())?.into());
                }
                Ok(splits)
            })
            .map_err(Failure::internal)?;
        if let Some(normalizer) = &self.normalizer {
            pieces.normalize(|part| normalizer.normalize(part)).map_err(Failure::internal)?;
        }
        Ok(pieces)
    }

    fn matches(&self, text: &str) -> Vec<([usize; 2], Token)> {
        let split = self.added.extract_and_normalize(self.normalizer.as_ref(), text);
        let parts = split.get_splits(OffsetReferential::Original, OffsetType::Byte).into_iter();
        let token = |tokens: &Option<Vec<Token>>| tokens.as_ref().and_then(|tokens| tokens.first().cloned());
        parts.filter_map(|(_, (begin, end), tokens)| Some(([begin, end], token(tokens)?))).collect()
    }
}
