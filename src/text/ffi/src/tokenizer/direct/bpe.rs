//! Byte-pair merges: of two neighbours that make a piece, those of the best rank first, the leftmost first among equals.

use ahash::AHashMap;
use std::cmp::Reverse;
use std::collections::hash_map::RandomState;
use std::collections::BinaryHeap;
use std::hash::{BuildHasher, Hasher};

use crate::abi::Failure;
use crate::tokenizer::pieces::{byte_char, byte_piece};

const NONE: u32 = u32::MAX;

const SPACE: &str = "\u{2581}";
const BEFORE_SPACES_MAX: usize = 32;

/// Words up to this many symbols are merged by looking for the best pair again and again, longer ones with a heap.
const SHORT: usize = 40;

/// What the model does with a character it does not know.
#[derive(Clone, Default)]
pub struct Unknown {
    pub byte_fallback: bool,
    pub token: Option<String>,
    pub fuse: bool,
}

pub struct Bpe {
    merges: MergeTable,
    /// Ids of single characters: of ASCII, of the byte alphabet by byte, of all.
    ascii: [u32; 128],
    bytes: [u32; 256],
    chars: AHashMap<char, u32>,
    /// Ids of <0x00> to <0xFF>, for byte_fallback.
    byte_pieces: Option<Box<[u32; 256]>>,
    /// None: what is not known vanishes. NONE within: the file names a token that it does not have.
    unknown: Option<u32>,
    fuse_unknown: bool,
    pub ignore_merges: bool,
    /// The characters that a merge joins with a run of U+2581 behind them: after others, words begin with the run. None
    /// when that cannot be said.
    pub before_spaces: Option<Vec<char>>,
}

/// Room for one word at a time.
#[derive(Default)]
pub struct BpeRoom {
    ids: Vec<u32>,
    pairs: Vec<(u32, u32)>,
    links: Vec<Link>,
    heap: BinaryHeap<Reverse<(u32, u32, u32)>>,
}

#[derive(Clone, Copy)]
struct Link {
    previous: u32,
    next: u32,
}

fn ends_in_byte_piece(token: &str) -> bool {
    let piece = "<0x00>".len();
    token.len().checked_sub(piece).and_then(|at| token.get(at..)).is_some_and(|end| byte_piece(end).is_some())
}

impl Bpe {
    pub fn new(
        ids: &AHashMap<String, u32>,
        merges: &[(String, String)],
        unknown: Unknown,
        ignore_merges: bool,
    ) -> Result<Bpe, Failure> {
        let mut table = MergeTable::with_room_for(merges.len());
        let find = |token: &str| {
            ids.get(token).copied().ok_or_else(|| Failure::file(format!("Token `{token}` out of vocabulary")))
        };
        let mut before_spaces = vec![];
        let mut is_known = !ignore_merges && ids.contains_key(SPACE);
        is_known &= unknown.token.as_ref().is_none_or(|token| !token.contains(SPACE));
        let mut whole = String::new();
        for (rank, (left, right)) in merges.iter().enumerate() {
            whole.clear();
            whole.push_str(left);
            whole.push_str(right);
            let merge = Merge { rank: rank as u32, whole: find(&whole)? };
            table.insert(find(left)?, find(right)?, merge);
            if right.starts_with(SPACE) && !left.ends_with(SPACE) {
                let stands_for_other =
                    ends_in_byte_piece(left) || unknown.token.as_ref().is_some_and(|token| left.ends_with(token));
                is_known &= !stands_for_other && before_spaces.len() < BEFORE_SPACES_MAX;
                before_spaces.extend(left.chars().next_back().filter(|c| is_known && !before_spaces.contains(c)));
            }
        }
        // What vanishes lets a merge reach over it.
        let has_all_bytes =
            unknown.byte_fallback && (0..=255u8).all(|byte| ids.contains_key(&format!("<0x{byte:02X}>")));
        is_known &= before_spaces.is_empty() || unknown.token.is_some() || has_all_bytes;
        let id = |token: &str| ids.get(token).copied().unwrap_or(NONE);
        let single = |token: &String| {
            let mut chars = token.chars();
            chars.next().filter(|_| chars.next().is_none())
        };
        let chars: AHashMap<char, u32> = ids.iter().filter_map(|(token, &id)| Some((single(token)?, id))).collect();
        let char_id = |c: char| chars.get(&c).copied().unwrap_or(NONE);
        Ok(Bpe {
            merges: table,
            ascii: std::array::from_fn(|byte| char_id(byte as u8 as char)),
            bytes: std::array::from_fn(|byte| char_id(byte_char(byte as u8))),
            byte_pieces: unknown
                .byte_fallback
                .then(|| Box::new(std::array::from_fn(|byte| id(&format!("<0x{byte:02X}>"))))),
            unknown: unknown.token.map(|token| id(&token)),
            fuse_unknown: unknown.fuse,
            ignore_merges,
            before_spaces: is_known.then_some(before_spaces),
            chars,
        })
    }

    /// Adds the tokens of a word whose bytes are spelled in the byte alphabet. False: a byte has no piece, nothing was
    /// added.
    pub fn encode_bytes(&self, word: &[u8], room: &mut BpeRoom, out: &mut Vec<u32>) -> bool {
        room.ids.clear();
        room.ids.extend(word.iter().map(|&byte| self.bytes[byte as usize]));
        if room.ids.contains(&NONE) {
            return false;
        }
        self.merge(room, out);
        true
    }

    /// Adds the tokens of a word as it is written.
    pub fn encode_chars(&self, word: &str, room: &mut BpeRoom, out: &mut Vec<u32>) -> Result<(), Failure> {
        room.ids.clear();
        let mut waiting: Option<u32> = None;
        for (at, c) in word.char_indices() {
            let id = if c.is_ascii() { self.ascii[c as usize] } else { self.chars.get(&c).copied().unwrap_or(NONE) };
            if id != NONE {
                room.ids.extend(waiting.take());
                room.ids.push(id);
                continue;
            }
            if let Some(pieces) = &self.byte_pieces {
                let bytes = &word.as_bytes()[at..at + c.len_utf8()];
                if bytes.iter().all(|&byte| pieces[byte as usize] != NONE) {
                    room.ids.extend(bytes.iter().map(|&byte| pieces[byte as usize]));
                    continue;
                }
            }
            let Some(unknown) = self.unknown else { continue };
            if unknown == NONE {
                return Err(Failure::internal("the token for unknown text is not in the vocabulary"));
            }
            if !self.fuse_unknown {
                room.ids.extend(waiting);
            }
            waiting = Some(unknown);
        }
        room.ids.extend(waiting);
        self.merge(room, out);
        Ok(())
    }

    fn merge(&self, room: &mut BpeRoom, out: &mut Vec<u32>) {
        if room.ids.len() <= SHORT {
            self.merge_short(room, out);
        } else {
            self.merge_long(room, out);
        }
    }

    fn merge_short(&self, room: &mut BpeRoom, out: &mut Vec<u32>) {
        let BpeRoom { ids, pairs, .. } = room;
        let pair = |left: u32, right: u32| self.merges.get(left, right).map_or((NONE, NONE), |m| (m.rank, m.whole));
        pairs.clear();
        pairs.extend(ids.windows(2).map(|two| pair(two[0], two[1])));
        loop {
            let mut best = NONE;
            let mut at = 0;
            for (i, &(rank, _)) in pairs.iter().enumerate() {
                if rank < best {
                    (best, at) = (rank, i);
                }
            }
            if best == NONE {
                break;
            }
            ids[at] = pairs[at].1;
            ids.remove(at + 1);
            pairs.remove(at);
            if at > 0 {
                pairs[at - 1] = pair(ids[at - 1], ids[at]);
            }
            if at < pairs.len() {
                pairs[at] = pair(ids[at], ids[at + 1]);
            }
        }
        out.extend_from_slice(ids);
    }

    fn merge_long(&self, room: &mut BpeRoom, out: &mut Vec<u32>) {
        let BpeRoom { ids, links, heap, .. } = room;
        let size = ids.len() as u32;
        links.clear();
        links.extend((0..size).map(|i| Link { previous: i.wrapping_sub(1), next: i + 1 }));
        heap.clear();
        let waiting = |ids: &[u32], left: u32, right: u32| {
            let found = self.merges.get(ids[left as usize], ids[right as usize])?;
            Some(Reverse((found.rank, left, found.whole)))
        };
        heap.extend((1..size).filter_map(|right| waiting(ids, right - 1, right)));
        while let Some(Reverse((_, left, whole))) = heap.pop() {
            let right = links[left as usize].next;
            // What the heap says may be out of date: the pair was merged, or one side of it is longer now.
            if ids[left as usize] == NONE || right >= size {
                continue;
            }
            let now = self.merges.get(ids[left as usize], ids[right as usize]);
            if now.is_none_or(|found| found.whole != whole) {
                continue;
            }
            ids[left as usize] = whole;
            ids[right as usize] = NONE;
            let Link { previous, .. } = links[left as usize];
            let next = links[right as usize].next;
            links[left as usize].next = next;
            if next < size {
                links[next as usize].previous = left;
                heap.extend(waiting(ids, left, next));
            }
            if previous != NONE {
                heap.extend(waiting(ids, previous, left));
            }
        }
        out.extend(ids.iter().filter(|&&id| id != NONE));
    }
}

impl BpeRoom {
    pub fn bytes(&self) -> usize {
        self.ids.capacity() * 4 + self.links.capacity() * 8 + self.heap.capacity() * 12
    }
}

#[derive(Clone, Copy)]
struct Merge {
    rank: u32,
    whole: u32,
}

/// Pairs to merges, open addressing, at most half full. The hash is seeded: files choose the pairs.
struct MergeTable {
    slots: Vec<Slot>,
    seed: u64,
}

#[derive(Clone, Copy)]
struct Slot {
    left: u32,
    right: u32,
    merge: Merge,
}

impl MergeTable {
    fn with_room_for(size: usize) -> MergeTable {
        let empty = Slot { left: NONE, right: NONE, merge: Merge { rank: NONE, whole: NONE } };
        let slots = vec![empty; (2 * size + 2).next_power_of_two()];
        MergeTable { slots, seed: RandomState::new().build_hasher().finish() }
    }

    fn place(&self, left: u32, right: u32) -> usize {
        let key = (u64::from(left) << 32 | u64::from(right)) ^ self.seed;
        let product = u128::from(key) * 0x9E37_79B9_7F4A_7C15_u128;
        (product as u64 ^ (product >> 64) as u64) as usize & (self.slots.len() - 1)
    }

    /// Of a pair that comes twice the later one counts, as it does for the library.
    fn insert(&mut self, left: u32, right: u32, merge: Merge) {
        let mut at = self.place(left, right);
        while self.slots[at].left != NONE && (self.slots[at].left, self.slots[at].right) != (left, right) {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at] = Slot { left, right, merge };
    }

    #[inline]
    fn get(&self, left: u32, right: u32) -> Option<Merge> {
        let mut at = self.place(left, right);
        loop {
            let slot = &self.slots[at];
            if slot.left == left && slot.right == right {
                return Some(slot.merge);
            }
            if slot.left == NONE {
                return None;
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }
}
