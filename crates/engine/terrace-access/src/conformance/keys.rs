//! The shapes of keys that structures meet.

use terrace_base::max_key_bytes;

use super::Random;

/// Longest key that every page size takes.
const LONGEST: usize = max_key_bytes(4096);

/// How the keys of a test look and in what order they come first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyKind {
    /// Eight bytes, rising.
    Sorted,
    /// Eight bytes, falling.
    Reversed,
    /// Eight bytes, in no order.
    Random,
    /// A few dense groups far apart.
    Clustered,
    /// Long common beginnings, differences at the end.
    PrefixHeavy,
    /// At most three bytes, the empty key among them.
    Tiny,
    /// From nothing up to the longest key, few different beginnings.
    Long,
}

impl KeyKind {
    /// All of them.
    pub const ALL: [KeyKind; 7] = [
        KeyKind::Sorted,
        KeyKind::Reversed,
        KeyKind::Random,
        KeyKind::Clustered,
        KeyKind::PrefixHeavy,
        KeyKind::Tiny,
        KeyKind::Long,
    ];

    /// Key number `i` of `count`. Different numbers have different keys, but for `Tiny`.
    pub fn key(self, i: usize, count: usize) -> Vec<u8> {
        // An odd factor permutes the 64-bit numbers.
        let mixed = |i: usize| (i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        match self {
            KeyKind::Sorted => (i as u64).to_be_bytes().to_vec(),
            KeyKind::Reversed => ((count.max(i) - i) as u64).to_be_bytes().to_vec(),
            KeyKind::Random => mixed(i).to_be_bytes().to_vec(),
            KeyKind::Clustered => {
                let group = (mixed(i % 16) >> 32) as u32;
                [group.to_be_bytes(), ((i / 16) as u32).to_be_bytes()].concat()
            }
            KeyKind::PrefixHeavy => {
                let shared = [
                    "https://example.org/",
                    "https://example.org/a/very/long/path/that/is/",
                ];
                format!(
                    "{}{:04}/{:08x}",
                    shared[i % 2],
                    i % 97,
                    mixed(i) as u32 as usize ^ i << 32
                )
                .into_bytes()
            }
            KeyKind::Tiny => match i % 4 {
                0 => vec![],
                n => mixed(i).to_be_bytes()[..n].to_vec(),
            },
            KeyKind::Long => {
                let len = mixed(i) as usize % (LONGEST - 7);
                let mut key = vec![b'a' + (i % 3) as u8; len];
                key.extend_from_slice(&(i as u64).to_be_bytes());
                key.truncate(LONGEST);
                key
            }
        }
    }

    /// Numbers of the keys in the order in which they are first inserted.
    pub fn order(self, count: usize, random: &mut Random) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        if !matches!(self, KeyKind::Sorted | KeyKind::Reversed) {
            for i in (1..count).rev() {
                order.swap(i, random.below(i + 1));
            }
        }
        order
    }
}
