//! Puts a tokenizer together from a `tokenizer.json`, or from one without vocabulary and the vocabulary beside it.

use ahash::AHashMap;
use std::collections::hash_map::RandomState;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use std::path::{Path, PathBuf};
use tokenizers::models::bpe::{BpeTrainer, BPE};
use tokenizers::models::unigram::Unigram;
use tokenizers::models::wordlevel::WordLevel;
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::{AddedVocabulary, Model, ModelWrapper, NormalizerWrapper, Token};

use super::direct::{Bpe, Direct, Unknown};
use super::file::{split_merge, AddedEntry, File, Merges, ModelFile, Vocab};
use super::frame::Frames;
use super::pieces::PieceStyle;
use super::{HiddenPieces, Tokenizer, Way};
use crate::abi::Failure;

/// A vocabulary by id, as GGUF has it.
pub struct Vocabulary<'a> {
    pub tokens: Vec<&'a str>,
    pub scores: Option<&'a [f64]>,
    /// Nonzero when plain text may become the piece; none: all may.
    pub in_text: Option<&'a [u8]>,
    pub merges: Vec<&'a str>,
}

impl Tokenizer {
    pub fn from_json(json: &[u8], way: Way) -> Result<Tokenizer, Failure> {
        let mut file: File = serde_json::from_slice(json).map_err(Failure::file)?;
        let mut hidden = HiddenPieces::default();
        if let Vocab::Scores(pieces) = &mut file.model.vocab {
            let special = file.added_tokens.iter().filter(|entry| entry.token.special);
            hide(pieces, special.map(|entry| entry.id as usize), &mut hidden);
        }
        Tokenizer::build(file, hidden, way)
    }

    pub fn from_vocabulary(config: &[u8], vocabulary: &Vocabulary, way: Way) -> Result<Tokenizer, Failure> {
        let mut file: File = serde_json::from_slice(config).map_err(Failure::file)?;
        let mut hidden = HiddenPieces::default();
        if file.model.kind.as_deref() == Some("Unigram") {
            let scores = vocabulary.scores.ok_or_else(|| Failure::file("a Unigram vocabulary needs scores"))?;
            let names = vocabulary.tokens.iter().map(|token| token.to_string());
            let mut pieces: Vec<_> = names.zip(scores.iter().copied()).collect();
            if let Some(in_text) = vocabulary.in_text {
                let outside = (0..in_text.len()).filter(|&id| in_text[id] == 0);
                // Fillers may have any score, and the lowest of all decides what an unknown character costs.
                outside.clone().for_each(|id| pieces[id].1 = 0.0);
                hide(&mut pieces, outside, &mut hidden);
            }
            file.model.vocab = Vocab::Scores(pieces);
        } else {
            let ids = vocabulary.tokens.iter().enumerate().rev().map(|(id, token)| (token.to_string(), id as u32));
            file.model.merges = Some(Merges(merges_of(vocabulary)?));
            file.model.vocab = Vocab::Ids(ids.collect());
        }
        Tokenizer::build(file, hidden, way)
    }

    fn build(mut file: File, hidden: HiddenPieces, way: Way) -> Result<Tokenizer, Failure> {
        let model_size = match &file.model.vocab {
            Vocab::Ids(ids) => ids.values().max().map_or(0, |&id| id as usize + 1),
            Vocab::Scores(pieces) => pieces.len(),
        };
        let added_size = file.added_tokens.iter().map(|entry| entry.id as usize + 1).max().unwrap_or(0);
        let vocab_size = model_size.max(added_size);
        if vocab_size > 1 << 24 {
            return Err(Failure::file(format!("token id {} is over the limit of {}", vocab_size - 1, 1 << 24)));
        }
        let normalizer = file.normalizer;
        let (special, plain): (Vec<_>, Vec<_>) = file.added_tokens.into_iter().partition(|entry| entry.token.special);
        let added_plain = added_vocabulary(plain.iter(), normalizer.as_ref())?;
        let added = added_vocabulary(plain.iter().chain(&special), normalizer.as_ref())?;
        let bpe = if way == Way::Usual { take_merges(&mut file.model)? } else { None };
        let direct = match way {
            Way::Usual => {
                Direct::new(normalizer.as_ref(), file.pre_tokenizer.as_ref(), bpe.as_ref(), &added, &added_plain)?
            }
            Way::Library => None,
        };
        Ok(Tokenizer {
            model: model_of(file.model)?,
            bpe,
            direct,
            normalizer,
            pre_tokenizer: file.pre_tokenizer,
            frames: Frames::of(file.post_processor.as_ref())?,
            style: PieceStyle::of(file.decoder.as_ref()),
            decoder: file.decoder,
            added,
            added_plain,
            hidden,
            vocab_size: vocab_size as u32,
        })
    }
}

fn kind_of(file: &ModelFile) -> &str {
    file.kind.as_deref().unwrap_or(match (&file.vocab, &file.merges) {
        (Vocab::Scores(_), _) => "Unigram",
        (_, Some(_)) => "BPE",
        _ if file.continuing_subword_prefix.is_some() => "WordPiece",
        _ => "WordLevel",
    })
}

/// The merges of a BPE model, which then has none; None where only the library can apply them.
fn take_merges(file: &mut ModelFile) -> Result<Option<Bpe>, Failure> {
    let marks = [&file.continuing_subword_prefix, &file.end_of_word_suffix];
    let marked = marks.into_iter().flatten().any(|mark| !mark.is_empty());
    let (true, false, Vocab::Ids(ids), Some(merges)) = (kind_of(file) == "BPE", marked, &file.vocab, &mut file.merges)
    else {
        return Ok(None);
    };
    // Where two texts have one id, a pair that is gone looks like one that is there.
    if ids.values().collect::<ahash::AHashSet<_>>().len() != ids.len() {
        return Ok(None);
    }
    let unknown = Unknown {
        byte_fallback: file.byte_fallback.unwrap_or(false),
        token: file.unk_token.clone(),
        fuse: file.fuse_unk.unwrap_or(false),
    };
    let merges = std::mem::take(&mut merges.0);
    Bpe::new(ids, &merges, unknown, file.ignore_merges.unwrap_or(false)).map(Some)
}

fn model_of(file: ModelFile) -> Result<ModelWrapper, Failure> {
    let kind = kind_of(&file).to_owned();
    let unk_token = file.unk_token;
    match (kind.as_str(), file.vocab) {
        ("BPE", Vocab::Ids(ids)) => {
            let merges = file.merges.ok_or_else(|| Failure::file("model.merges is missing"))?;
            let mut builder = BPE::builder()
                .vocab_and_merges(ids, merges.0)
                .fuse_unk(file.fuse_unk.unwrap_or(false))
                .byte_fallback(file.byte_fallback.unwrap_or(false))
                .ignore_merges(file.ignore_merges.unwrap_or(false));
            if let Some(unk_token) = unk_token {
                builder = builder.unk_token(unk_token);
            }
            if let Some(prefix) = file.continuing_subword_prefix.filter(|prefix| !prefix.is_empty()) {
                builder = builder.continuing_subword_prefix(prefix);
            }
            if let Some(suffix) = file.end_of_word_suffix.filter(|suffix| !suffix.is_empty()) {
                builder = builder.end_of_word_suffix(suffix);
            }
            builder.build().map(ModelWrapper::BPE).map_err(Failure::file)
        }
        ("WordPiece", Vocab::Ids(ids)) => WordPiece::builder()
            .vocab(ids)
            .unk_token(unk_token.unwrap_or_else(|| "[UNK]".into()))
            .continuing_subword_prefix(file.continuing_subword_prefix.unwrap_or_else(|| "##".into()))
            .max_input_chars_per_word(file.max_input_chars_per_word.unwrap_or(100))
            .build()
            .map(ModelWrapper::WordPiece)
            .map_err(Failure::file),
        ("WordLevel", Vocab::Ids(ids)) => WordLevel::builder()
            .vocab(ids)
            .unk_token(unk_token.unwrap_or_else(|| "<unk>".into()))
            .build()
            .map(ModelWrapper::WordLevel)
            .map_err(Failure::file),
        ("Unigram", Vocab::Scores(pieces)) => Unigram::from(pieces, file.unk_id, file.byte_fallback.unwrap_or(false))
            .map(ModelWrapper::Unigram)
            .map_err(Failure::file),
        (kind, _) => Err(Failure::file(format!("model.type '{kind}' with this form of vocab is not known"))),
    }
}

/// Renames pieces so that no text can match them: the model knows nothing of control pieces, and would find `</s>` in
/// plain text. The new name has a space, which these models never see, and a number drawn for this process.
fn hide(pieces: &mut Vec<(String, f64)>, ids: impl Iterator<Item = usize>, hidden: &mut HiddenPieces) {
    let nonce = RandomState::new().build_hasher().finish();
    for id in ids {
        if let Some((piece, _)) = pieces.get_mut(id) {
            let name = format!(" {nonce:016x} {id}");
            hidden.insert(id as u32, std::mem::replace(piece, name));
        }
    }
}

fn merges_of(vocabulary: &Vocabulary) -> Result<Vec<(String, String)>, Failure> {
    match vocabulary.scores {
        Some(scores) if vocabulary.merges.is_empty() => Ok(merges_by_score(vocabulary, scores)),
        _ => {
            let split = |(rank, merge): (usize, &&str)| {
                split_merge(merge).ok_or_else(|| Failure::file(format!("merge {rank} is not two tokens: '{merge}'")))
            };
            vocabulary.merges.iter().enumerate().map(split).collect()
        }
    }
}

/// SentencePiece's BPE has scores in place of merges: a piece may be made of any two pieces, best score first; of one
/// piece's splits the one with the longer left part comes first.
fn merges_by_score(vocabulary: &Vocabulary, scores: &[f64]) -> Vec<(String, String)> {
    let in_text = |id: usize| vocabulary.in_text.is_none_or(|in_text| in_text[id] != 0);
    let normal = vocabulary.tokens.iter().enumerate().filter(|(id, _)| in_text(*id));
    let pieces: AHashMap<&str, usize> = normal.map(|(id, &token)| (token, id)).collect();
    let mut merges: Vec<(f64, &str, &str)> = vec![];
    for (id, &token) in vocabulary.tokens.iter().enumerate().filter(|(id, _)| in_text(*id)) {
        for (at, _) in token.char_indices().skip(1) {
            let (left, right) = token.split_at(at);
            if pieces.contains_key(left) && pieces.contains_key(right) {
                merges.push((scores[id], left, right));
            }
        }
    }
    // Stable, so that pieces of the same score and lengths keep the order of ids.
    merges.sort_by(|a, b| {
        let chars = |text: &str| text.chars().count();
        b.0.total_cmp(&a.0).then_with(|| chars(b.1).cmp(&chars(a.1))).then_with(|| chars(b.2).cmp(&chars(a.2)))
    });
    merges.into_iter().map(|(_, left, right)| (left.to_owned(), right.to_owned())).collect()
}

fn added_vocabulary<'a>(
    entries: impl Iterator<Item = &'a AddedEntry> + Clone,
    normalizer: Option<&NormalizerWrapper>,
) -> Result<AddedVocabulary, Failure> {
    let ids = FileIds(entries.clone().map(|entry| (entry.token.content.as_str(), entry.id)).collect());
    let mut added = AddedVocabulary::new();
    added.add_tokens(entries.map(|entry| entry.token.clone()), &ids, normalizer).map_err(Failure::file)?;
    Ok(added)
}

/// Tells an AddedVocabulary the ids the file gives its tokens; by itself it would ask the model or count on.
struct FileIds<'a>(AHashMap<&'a str, u32>);

impl Model for FileIds<'_> {
    type Trainer = BpeTrainer;

    fn tokenize(&self, _: &str) -> tokenizers::Result<Vec<Token>> {
        Ok(vec![])
    }
    fn token_to_id(&self, token: &str) -> Option<u32> {
        self.0.get(token).copied()
    }
    fn id_to_token(&self, _: u32) -> Option<String> {
        None
    }
    fn get_vocab(&self) -> HashMap<String, u32> {
        HashMap::new()
    }
    fn get_vocab_size(&self) -> usize {
        self.0.len()
    }
    fn save(&self, _: &Path, _: Option<&str>) -> tokenizers::Result<Vec<PathBuf>> {
        Ok(vec![])
    }
    fn get_trainer(&self) -> BpeTrainer {
        BpeTrainer::default()
    }
}
