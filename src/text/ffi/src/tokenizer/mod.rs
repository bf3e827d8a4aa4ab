//! A tokenizer: the library's parts, and what they lack for serving: special tokens matched or not per call, pieces that
//! text may not become, the bytes a token stands for, no doubled start token.

mod abi;
mod build;
mod direct;
mod file;
mod frame;
mod literal;
mod pieces;

use std::cell::RefCell;
use tokenizers::{
    AddedVocabulary, Decoder, DecoderWrapper, Model, ModelWrapper, NormalizerWrapper, OffsetType, PreTokenizer,
    PreTokenizerWrapper, Token,
};

use crate::abi::Failure;
use direct::{Bpe, BpeRoom, Direct, Looking, WordModel};
use frame::{longest_first, Frames};
use pieces::PieceStyle;

type HiddenPieces = ahash::AHashMap<u32, String>;

/// Who turns text into ids: the library alone is slower and what tests compare with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Usual,
    Library,
}

// Handles are used from several threads at once.
const _: fn() = || {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<Tokenizer>();
};

pub struct Tokenizer {
    /// Has no merges where `bpe` has them.
    model: ModelWrapper,
    bpe: Option<Bpe>,
    direct: Option<Direct>,
    normalizer: Option<NormalizerWrapper>,
    pre_tokenizer: Option<PreTokenizerWrapper>,
    decoder: Option<DecoderWrapper>,
    frames: Frames,
    /// Every added token matches in text.
    added: AddedVocabulary,
    /// Only added tokens that are not special match in text.
    added_plain: AddedVocabulary,
    /// Pieces the model does not know by their name because text may not become them.
    hidden: HiddenPieces,
    style: PieceStyle,
    vocab_size: u32,
}

#[derive(Clone, Copy)]
pub struct EncodeOptions<'a> {
    pub add_special: bool,
    pub parse_special: bool,
    /// Bytes of the (first) text whose special tokens stay text: in order, apart.
    pub literal: &'a [[usize; 2]],
    pub double_start: bool,
    pub max_length: Option<usize>,
}

impl Tokenizer {
    /// Ids and type ids.
    pub fn encode(
        &self,
        text: &str,
        pair: Option<&str>,
        options: EncodeOptions,
    ) -> Result<(Vec<u32>, Vec<u32>), Failure> {
        let mut first = self.encode_text(text, options.parse_special, options.literal)?;
        let mut second = match pair {
            Some(text) => self.encode_text(text, options.parse_special, &[])?,
            None => vec![],
        };
        let frame = self.frames.get(pair.is_some(), options.add_special);
        let start = frame.start_token().filter(|&id| self.is_special(id) && !options.double_start);
        if start.is_some() && first.first().copied() == start {
            first.remove(0);
        }
        if let Some(max_length) = options.max_length {
            let Some(room) = max_length.checked_sub(frame.num_added()) else {
                return Err(Failure::argument(format!(
                    "max_length {max_length} has no room for the {} special tokens that are added",
                    frame.num_added()
                )));
            };
            let (first_len, second_len) = longest_first(first.len(), second.len(), room);
            first.truncate(first_len);
            second.truncate(second_len);
        }
        Ok(frame.apply(&first, &second))
    }

    fn encode_text(&self, text: &str, parse_special: bool, literal: &[[usize; 2]]) -> Result<Vec<u32>, Failure> {
        let words = WordModel { model: &self.model, bpe: self.bpe.as_ref() };
        let looking = if parse_special { Looking::All { literal } } else { Looking::Plain };
        if let Some(direct) = &self.direct {
            if let Some(ids) = direct.encode(words, self.normalizer.as_ref(), text, looking)? {
                return Ok(ids);
            }
        }
        let mut pretokenized = if parse_special && !literal.is_empty() {
            self.split_around(text, literal)?
        } else {
            let added = if parse_special { &self.added } else { &self.added_plain };
            added.extract_and_normalize(self.normalizer.as_ref(), text)
        };
        if let Some(pre_tokenizer) = &self.pre_tokenizer {
            pre_tokenizer.pre_tokenize(&mut pretokenized).map_err(Failure::internal)?;
        }
        let room = RefCell::new((BpeRoom::default(), vec![]));
        let tokenize = |word: &str| {
            let Some(bpe) = &self.bpe else { return self.model.tokenize(word) };
            let (room, ids) = &mut *room.borrow_mut();
            ids.clear();
            words.merge(bpe, word, room, ids).map_err(|failure| failure.message)?;
            Ok(ids.iter().map(|&id| Token::new(id, String::new(), (0, 0))).collect())
        };
        pretokenized.tokenize(|part| tokenize(part.get())).map_err(Failure::internal)?;
        let encoding = pretokenized.into_encoding(None, 0, OffsetType::None).map_err(Failure::internal)?;
        Ok(encoding.get_ids().to_vec())
    }

    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String, Failure> {
        let mut pieces = Vec::with_capacity(ids.len());
        for &id in ids {
            if id >= self.vocab_size {
                return Err(Failure::argument(format!(
                    "token id {id} is outside the vocabulary of {}",
                    self.vocab_size
                )));
            }
            if skip_special && self.is_special(id) {
                continue;
            }
            pieces.extend(self.added.simple_id_to_token(id).or_else(|| self.model_piece(id)));
        }
        match &self.decoder {
            Some(decoder) => decoder.decode(pieces).map_err(Failure::internal),
            None => Ok(pieces.join(" ")),
        }
    }

    /// The token as the vocabulary writes it.
    pub fn piece(&self, id: u32) -> Option<String> {
        let added = self.added.get_added_tokens_decoder().get(&id);
        added.map(|token| token.content.clone()).or_else(|| self.model_piece(id))
    }

    fn model_piece(&self, id: u32) -> Option<String> {
        self.hidden.get(&id).cloned().or_else(|| self.model.id_to_token(id))
    }

    /// The bytes a token stands for in running text; a special token is its own text.
    pub fn token_bytes(&self, id: u32) -> Vec<u8> {
        match self.piece(id) {
            Some(piece) if self.is_special(id) => piece.into_bytes(),
            Some(piece) => self.word_piece_text(&piece, false).unwrap_or_else(|| self.style.bytes(&piece)),
            None => vec![],
        }
    }

    /// What a token adds to a decoded text. WordPiece's decoder treats the first piece of a text unlike the others, and
    /// sets a blank before a special token too.
    pub fn text_bytes(&self, id: u32, at_start: bool) -> Vec<u8> {
        let text = self.piece(id).and_then(|piece| self.word_piece_text(&piece, at_start));
        text.unwrap_or_else(|| self.token_bytes(id))
    }

    /// As the library's decoder writes it, which looks at one piece at a time, its clean-up of blanks included.
    fn word_piece_text(&self, piece: &str, at_start: bool) -> Option<Vec<u8>> {
        let Some(DecoderWrapper::WordPiece(decoder)) = &self.decoder else { return None };
        let mut pieces = vec![piece.to_string()];
        if !at_start {
            pieces.insert(0, String::new());
        }
        decoder.decode_chain(pieces).ok()?.pop().map(String::into_bytes)
    }

    pub fn token_id(&self, piece: &str) -> Option<u32> {
        let hidden = || self.hidden.iter().find(|(_, hidden)| *hidden == piece).map(|(id, _)| *id);
        self.added.token_to_id(piece, &self.model).or_else(hidden)
    }

    pub fn is_special(&self, id: u32) -> bool {
        self.added.get_added_tokens_decoder().get(&id).is_some_and(|token| token.special)
    }

    pub fn vocab_size(&self) -> u32 {
        self.vocab_size
    }

    pub fn strips_leading_space(&self) -> bool {
        self.style.strips_leading_space
    }

    /// The special token that is put in front of every text.
    pub fn start_token(&self) -> Option<u32> {
        self.frames.get(false, true).start_token().filter(|&id| self.is_special(id))
    }

    pub fn set_post_processor(&mut self, json: &[u8]) -> Result<(), Failure> {
        let processor = serde_json::from_slice(json).map_err(Failure::file)?;
        self.frames = Frames::of(Some(&processor))?;
        Ok(())
    }
}
