//! How the pieces of a vocabulary spell bytes, read off the decoder.

use serde_json::Value;
use std::sync::LazyLock;
use tokenizers::DecoderWrapper;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Spelling {
    /// One printable character per byte (GPT-2).
    ByteLevel,
    /// UTF-8 with U+2581 for a space; `<0xNN>` is a byte when `byte_fallback`.
    SentencePiece {
        byte_fallback: bool,
    },
    /// A word, or `##` and the rest of one. Where the decoder is WordPiece's alone, it is asked itself.
    WordPiece,
    Plain,
}

pub struct PieceStyle {
    spelling: Spelling,
    pub strips_leading_space: bool,
}

impl PieceStyle {
    pub fn of(decoder: Option<&DecoderWrapper>) -> PieceStyle {
        let json = decoder.map_or(Value::Null, |decoder| serde_json::to_value(decoder).unwrap_or(Value::Null));
        let mut steps = vec![];
        flatten(&json, &mut steps);
        let has = |kind: &str| steps.iter().any(|step| step["type"] == kind);
        let replaces_space =
            steps.iter().any(|step| step["type"] == "Replace" && step["pattern"]["String"] == "\u{2581}");
        let is_word_piece = matches!(decoder, Some(DecoderWrapper::WordPiece(_)));
        let strips = steps.iter().any(|step| match step["type"].as_str() {
            Some("Strip") => step["content"] == " " && step["start"].as_u64().unwrap_or(0) > 0,
            Some("Metaspace") => step["prepend_scheme"] != "never",
            Some("WordPiece") => !is_word_piece,
            _ => false,
        });
        let spelling = if has("ByteLevel") {
            Spelling::ByteLevel
        } else if has("WordPiece") {
            Spelling::WordPiece
        } else if has("Metaspace") || has("ByteFallback") || replaces_space {
            Spelling::SentencePiece { byte_fallback: has("ByteFallback") }
        } else {
            Spelling::Plain
        };
        PieceStyle { spelling, strips_leading_space: strips }
    }

    /// The bytes a piece that is no added token stands for in running text.
    pub fn bytes(&self, piece: &str) -> Vec<u8> {
        match self.spelling {
            Spelling::ByteLevel => byte_level_bytes(piece).unwrap_or_else(|| piece.as_bytes().to_vec()),
            Spelling::SentencePiece { byte_fallback } => match byte_piece(piece).filter(|_| byte_fallback) {
                Some(byte) => vec![byte],
                None => piece.replace('\u{2581}', " ").into_bytes(),
            },
            Spelling::WordPiece => match piece.strip_prefix("##") {
                Some(rest) => rest.as_bytes().to_vec(),
                None => format!(" {piece}").into_bytes(),
            },
            Spelling::Plain => piece.as_bytes().to_vec(),
        }
    }
}

fn flatten<'a>(step: &'a Value, steps: &mut Vec<&'a Value>) {
    match step["decoders"].as_array() {
        Some(inner) => inner.iter().for_each(|step| flatten(step, steps)),
        None => steps.push(step),
    }
}

/// `<0xNN>` as its byte.
pub fn byte_piece(piece: &str) -> Option<u8> {
    let digits = piece.strip_prefix("<0x")?.strip_suffix('>')?;
    if digits.len() != 2 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    u8::from_str_radix(digits, 16).ok()
}

/// GPT-2's alphabet: printable Latin-1 characters stand for themselves, the other bytes for U+0100 onwards in order.
static BYTE_CHARS: LazyLock<[char; 256]> = LazyLock::new(|| {
    let mut next = 0x100u32;
    std::array::from_fn(|byte| match byte as u8 {
        b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF => byte as u8 as char,
        _ => {
            next += 1;
            char::from_u32(next - 1).unwrap_or('\u{FFFD}')
        }
    })
});

pub fn byte_char(byte: u8) -> char {
    BYTE_CHARS[byte as usize]
}

static CHAR_BYTES: LazyLock<[Option<u8>; 0x180]> = LazyLock::new(|| {
    let mut table = [None; 0x180];
    for (byte, &c) in BYTE_CHARS.iter().enumerate() {
        table[c as usize] = Some(byte as u8);
    }
    table
});

/// None when a character is not of the alphabet: such a piece is not byte-level.
fn byte_level_bytes(piece: &str) -> Option<Vec<u8>> {
    piece.chars().map(|c| CHAR_BYTES.get(c as usize).copied().flatten()).collect()
}
