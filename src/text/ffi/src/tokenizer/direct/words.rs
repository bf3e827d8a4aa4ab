//! Words and their tokens as they were seen last: a table of one entry per place, so its size never changes.

const KEY: usize = 23;
const IDS: usize = 8;
const PLACES: usize = 1 << 13;

#[derive(Clone, Copy)]
struct Entry {
    /// The word, zeros, and its length in the last byte; all zero when empty.
    key: [u64; 3],
    ids: [u32; IDS],
    num_ids: u32,
}

pub struct Words {
    entries: Vec<Entry>,
}

/// A word short enough to be kept.
#[derive(Clone, Copy)]
pub struct Key {
    key: [u64; 3],
    place: usize,
}

impl Default for Words {
    fn default() -> Self {
        Words { entries: vec![Entry { key: [0; 3], ids: [0; IDS], num_ids: 0 }; PLACES] }
    }
}

impl Words {
    #[inline]
    pub fn key(word: &[u8]) -> Option<Key> {
        if word.len() > KEY || word.is_empty() {
            return None;
        }
        let mut bytes = [0; 24];
        bytes[..word.len()].copy_from_slice(word);
        bytes[KEY] = word.len() as u8;
        let part = |i: usize| u64::from_le_bytes(std::array::from_fn(|j| bytes[8 * i + j]));
        let key = [part(0), part(1), part(2)];
        let mix = |a: u64, b: u64| {
            let product = u128::from(a) * u128::from(b);
            product as u64 ^ (product >> 64) as u64
        };
        let hash = mix(key[0] ^ 0x9E37_79B9_7F4A_7C15, key[1] ^ 0xD1B5_4A32_D192_ED03);
        let hash = mix(hash ^ key[2], 0xA24B_AED4_963E_E407);
        Some(Key { key, place: hash as usize % PLACES })
    }

    #[inline]
    pub fn find(&self, key: &Key) -> Option<&[u32]> {
        let entry = &self.entries[key.place];
        (entry.key == key.key).then(|| &entry.ids[..entry.num_ids as usize])
    }

    pub fn keep(&mut self, key: &Key, ids: &[u32]) {
        if ids.len() <= IDS {
            let entry = &mut self.entries[key.place];
            entry.key = key.key;
            entry.ids[..ids.len()].copy_from_slice(ids);
            entry.num_ids = ids.len() as u32;
        }
    }
}
