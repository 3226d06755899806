//! The decoders of this crate, for those who try them with any bytes: fuzzing.
//!
//! Each checks what a decoder promises: it ends in a value or in nothing, and a value that it gives is
//! encoded so that it comes back.

use crate::catalog::entries::Entry;
use crate::effects::{Effects, encode};
pub use crate::warm::try_records as warm_records;

/// Decodes the payload of a log record. Returns how many effects it has, if it has nothing else.
///
/// # Panics
/// If one of them does not come back.
pub fn effects(payload: &[u8]) -> Option<usize> {
    let mut count = 0;
    for effect in Effects::new(payload) {
        let effect = effect.ok()?;
        let mut again = Vec::new();
        encode(&effect, &mut again);
        let mut back = Effects::new(&again);
        assert_eq!(back.next(), Some(Ok(effect)));
        assert_eq!(back.next(), None);
        count += 1;
    }
    Some(count)
}

/// Decodes an entry of the catalog. Returns whether it is one.
///
/// # Panics
/// If it does not come back.
pub fn catalog_entry(key: &[u8], value: &[u8]) -> bool {
    let Some(entry) = Entry::decode(key, value) else {
        return false;
    };
    assert_eq!(Entry::decode(key, &entry.encode()), Some(entry));
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::opened::NewStructure;
    use crate::effects::Effect;
    use crate::index::definition::{IndexEntry, Stored};
    use crate::kinds::KINDS;
    use crate::kinds::Kind;
    use crate::kinds::spec::MapOptions;
    use terrace_base::{PageId, StructureId};
    use terrace_tier::Roots;

    /// A small generator: which bytes are tried is a function of the round.
    fn next(state: &mut u64) -> usize {
        *state = terrace_base::checksum::mix(*state, 0x9E37);
        (*state >> 16) as usize
    }

    /// Calls `check` with changed, cut and crossed versions of these.
    fn try_changed(good: &[Vec<u8>], mut check: impl FnMut(&[u8])) {
        let mut state = 1;
        for _ in 0..50_000 {
            let mut bytes = good[next(&mut state) % good.len()].clone();
            for _ in 0..next(&mut state) % 4 {
                if bytes.is_empty() {
                    break;
                }
                let at = next(&mut state) % bytes.len();
                match next(&mut state) % 4 {
                    0 => bytes[at] = next(&mut state) as u8,
                    1 => bytes[at] ^= 1 << (next(&mut state) % 8),
                    2 => bytes.truncate(at),
                    _ => bytes.extend(&good[next(&mut state) % good.len()]),
                }
            }
            check(&bytes);
        }
    }

    fn index(source: &str) -> IndexEntry {
        IndexEntry {
            table: StructureId(70),
            unique: true,
            source: Stored::parse(source).unwrap(),
        }
    }

    const SOURCES: [&str; 5] = ["function", "json:/a~1b/0", "csv:2:;", "csv:3", "bytes:1..3"];

    #[test]
    fn changed_effects_come_back_or_are_none() {
        let mut good = Vec::new();
        for (kind, source) in KINDS.iter().map(|row| row.kind).cycle().zip(SOURCES) {
            let spec = MapOptions::new().spec(kind);
            let index = index(source);
            for effect in [
                Effect::Put {
                    structure: StructureId(300),
                    key: b"key",
                    value: &[7; 200],
                },
                Effect::Delete {
                    structure: StructureId(1),
                    key: b"",
                },
                Effect::DeleteRange {
                    structure: StructureId(300),
                    part: Some(StructureId(7)),
                    low: b"a",
                    high: Some(&b"bc"[..]),
                },
                Effect::Finish {
                    structure: StructureId(72),
                },
                Effect::Drop {
                    structure: StructureId(u32::MAX),
                },
                Effect::Rename {
                    structure: StructureId(2),
                    name: "größe",
                },
                Effect::Compress {
                    structure: StructureId(2),
                    compression: crate::kinds::spec::Compression::LZ4,
                },
                Effect::Mark {
                    time_ms: 1_800_000_000_000,
                    name: "m",
                },
            ] {
                let mut out = Vec::new();
                encode(&effect, &mut out);
                good.push(out);
            }
            for (index, unfinished) in [(None, false), (None, true), (Some(&index), true)] {
                let (mut out, name) = (Vec::new(), "name");
                let new = NewStructure {
                    spec,
                    name,
                    index,
                    unfinished,
                };
                crate::effects::encode_create(StructureId(70), &new, &mut out);
                good.push(out);
            }
        }
        assert!(good.iter().all(|bytes| effects(bytes) == Some(1)));
        assert_eq!(effects(&good.concat()), Some(good.len()));
        try_changed(&good, |bytes| {
            let _ = effects(bytes);
        });
    }

    #[test]
    fn changed_entries_of_the_catalog_come_back_or_are_none() {
        let mut good = Vec::new();
        for (n, source) in (0..).zip(SOURCES) {
            for (hot, index) in [(None, None), (Some(PageId(8)), Some(index(source)))] {
                let entry = Entry {
                    id: StructureId(n),
                    spec: MapOptions::new().spec(Kind::Table),
                    name: "people".into(),
                    roots: Roots {
                        hot,
                        cold: PageId(3),
                    },
                    dropping: n % 2 == 0,
                    unfinished: n % 3 == 0,
                    index,
                };
                good.push(entry.encode());
            }
        }
        let key = [0, 0, 0, 9];
        assert!(good.iter().all(|value| catalog_entry(&key, value)));
        try_changed(&good, |value| {
            let _ = catalog_entry(&key, value);
        });
    }

    #[test]
    fn changed_records_of_what_was_hot_come_back() {
        let good = [
            vec![7, 0, 3, 0, b'a', b'b', b'c', 1, 2, 1, 0, b'd'],
            [&[0, 255, 0, 1][..], &[b'x'; 256]].concat(),
        ];
        let mut most = 0;
        try_changed(&good, |bytes| most = warm_records(bytes).max(most));
        assert!(most >= 2, "{most}");
    }
}
