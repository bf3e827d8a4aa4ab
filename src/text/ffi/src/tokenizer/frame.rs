//! What a post-processor puts around texts, found once by showing it a text of one token.

use tokenizers::{Encoding, PostProcessor, PostProcessorWrapper, Token};

use crate::abi::Failure;

const MARK_FIRST: u32 = u32::MAX - 1;
const MARK_SECOND: u32 = u32::MAX;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Token(u32),
    First,
    Second,
}

/// The order of special tokens and texts, with the type id of each.
pub struct Frame {
    parts: Vec<(Part, u32)>,
}

impl Frame {
    pub fn of(processor: Option<&PostProcessorWrapper>, pair: bool, add_special: bool) -> Result<Frame, Failure> {
        let Some(processor) = processor else {
            let parts = if pair { vec![(Part::First, 0), (Part::Second, 1)] } else { vec![(Part::First, 0)] };
            return Ok(Frame { parts });
        };
        let marked = |mark| Encoding::from_tokens(vec![Token::new(mark, String::new(), (0, 0))], 0);
        let shown = processor
            .process(marked(MARK_FIRST), pair.then(|| marked(MARK_SECOND)), add_special)
            .map_err(Failure::file)?;
        let parts = shown.get_ids().iter().zip(shown.get_type_ids()).map(|(&id, &type_id)| {
            let part = match id {
                MARK_FIRST => Part::First,
                MARK_SECOND => Part::Second,
                id => Part::Token(id),
            };
            (part, type_id)
        });
        Ok(Frame { parts: parts.collect() })
    }

    pub fn num_added(&self) -> usize {
        self.parts.iter().filter(|(part, _)| matches!(part, Part::Token(_))).count()
    }

    /// The token right before the first text, when the frame begins with it.
    pub fn start_token(&self) -> Option<u32> {
        match self.parts.first() {
            Some(&(Part::Token(id), _)) => Some(id),
            _ => None,
        }
    }

    /// Ids and type ids of the whole.
    pub fn apply(&self, first: &[u32], second: &[u32]) -> (Vec<u32>, Vec<u32>) {
        let size = self.num_added() + first.len() + second.len();
        let mut ids = Vec::with_capacity(size);
        let mut type_ids = Vec::with_capacity(size);
        for &(part, type_id) in &self.parts {
            match part {
                Part::Token(id) => ids.push(id),
                Part::First => ids.extend_from_slice(first),
                Part::Second => ids.extend_from_slice(second),
            }
            type_ids.resize(ids.len(), type_id);
        }
        (ids, type_ids)
    }
}

pub struct Frames {
    single: [Frame; 2],
    pair: [Frame; 2],
}

impl Frames {
    pub fn of(processor: Option<&PostProcessorWrapper>) -> Result<Frames, Failure> {
        let both = |pair| Ok([Frame::of(processor, pair, false)?, Frame::of(processor, pair, true)?]);
        Ok(Frames { single: both(false)?, pair: both(true)? })
    }

    pub fn get(&self, pair: bool, add_special: bool) -> &Frame {
        let frames = if pair { &self.pair } else { &self.single };
        &frames[usize::from(add_special)]
    }
}

/// Lengths of two texts cut to `room` tokens together: the longer one first, then both to half each.
pub fn longest_first(first: usize, second: usize, room: usize) -> (usize, usize) {
    if first + second <= room {
        return (first, second);
    }
    let short = first.min(second);
    let (short, long) = if short + short <= room { (short, room - short) } else { (room / 2, room - room / 2) };

    if first > second {
        (long, short)
    } else {
        (short, long)
    }
}
