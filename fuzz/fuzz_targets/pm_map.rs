//! A whole map in persistent memory: words of its file changed anywhere. Checks of superblock, log segments,
//! records, leaves and lower fences are made anew where the first byte says so, so that what lies behind them is
//! reached, too. Opening, reading, writing and checking end, and in values or errors.
#![no_main]

use std::sync::{Arc, OnceLock};

use terrace_base::checksum::mix;
use terrace_pm::pm::Sim;
use terrace_pm::{Options, PmMap};

const CAPACITY: u64 = 96 << 10;
/// Words of a chunk, and of a leaf; a chunk is one segment here.
const CHUNK: usize = 512;
const LEAF: usize = 64;
/// The table of what chunks are for.
const TABLE: usize = 1536;
/// Records of a segment of a tiny map.
const RECORDS: usize = 3;

fn options() -> Options {
    Options::new().tiny().memory(1 << 20)
}

/// A map with leaves, a log and deletes.
fn make<K, V>(put: impl Fn(&PmMap<K, V>, u64), delete: impl Fn(&PmMap<K, V>, u64)) -> Vec<u64>
where
    K: terrace_pm::Key + ?Sized,
    V: terrace_pm::Value + ?Sized,
{
    let sim = Arc::new(Sim::new(CAPACITY));
    let map = PmMap::<K, V>::open_on(sim.clone(), options()).expect("a new map");
    for key in 0..40 {
        put(&map, key);
    }
    for key in 0..5 {
        delete(&map, key);
    }
    map.crash();
    sim.image()
}

fn text(key: u64) -> Vec<u8> {
    format!("the same {key}").into_bytes()
}

fn sound(bytes: bool) -> &'static [u64] {
    static NUMBERS: OnceLock<Vec<u64>> = OnceLock::new();
    static STRINGS: OnceLock<Vec<u64>> = OnceLock::new();
    if bytes {
        STRINGS.get_or_init(|| {
            make::<[u8], [u8]>(
                |map, key| map.put(text(key), text(key)).expect("room"),
                |map, key| map.delete(text(key)).expect("room"),
            )
        })
    } else {
        NUMBERS.get_or_init(|| {
            make::<u64, u64>(
                |map, key| map.put(key, key).expect("room"),
                |map, key| map.delete(key).expect("room"),
            )
        })
    }
}

/// The sum over the keys of a leaf, and the check of its slots and its next pointer.
fn seal(image: &mut [u64], leaf: usize, map_id: u64) {
    let number = (leaf / LEAF) as u64;
    let slots = image[leaf] & ((1 << 29) - 1);
    let sum = (0..28)
        .filter(|slot| slots >> slot & 1 == 1)
        .map(|slot| {
            let print = image[leaf + 3 + slot / 8] >> (8 * (slot % 8)) & 0xff;
            let place = number << 16 | (slot as u64) << 8 | print;
            mix(map_id ^ place, image[leaf + 8 + 2 * slot]) >> 48
        })
        .fold(0, |sum, one| sum ^ one);
    let next = image[leaf + 1] >> (32 * (slots >> 28 & 1)) & 0xffff_ffff;
    let word = slots | sum << 32;
    image[leaf] = word | mix(!map_id ^ (number << 32 | next), word) >> 48 << 48;
}

/// Makes the checks right that the file has for what it says now.
fn mend(image: &mut [u64], header: usize) {
    let magic = u64::from_le_bytes(*b"TERRACPM");
    for at in [0, 512] {
        image[at + 17] = image[at..at + 17]
            .iter()
            .fold(magic, |sum, word| mix(sum, *word))
            | 1;
    }
    let map_id = image[6];
    for at in (header..image.len() - CHUNK + 1).step_by(CHUNK) {
        if image[at] as u32 == 0x6765_5370 {
            image[at + 3] = mix(mix(image[at], image[at + 1]), map_id) | 1;
            let partition = image[at] >> 32;
            for record in (at + 8..at + 8 + 4 * RECORDS).step_by(4) {
                image[record + 3] = mix(
                    mix(map_id ^ partition, image[record + 2]),
                    mix(image[record], image[record + 1]),
                ) | 1;
            }
            continue;
        }
        if image[TABLE + (at - header) / CHUNK] as u8 != 1 {
            // Nothing, or blobs.
            continue;
        }
        for leaf in (at..at + CHUNK).step_by(LEAF) {
            let number = (leaf / LEAF) as u64;
            let check = mix(mix(map_id, number), mix(image[leaf + 2], image[leaf + 7])) >> 32;
            image[leaf + 6] = image[leaf + 6] & 0xffff_ffff | check << 32;
            seal(image, leaf, map_id);
        }
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((how, bytes)) = bytes.split_first() else {
        return;
    };
    let strings = how & 1 == 1;
    let mut image = sound(strings).to_vec();
    for change in bytes.chunks_exact(10) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % image.len();
        let mut word = [0; 8];
        word.copy_from_slice(&change[2..]);
        image[at] ^= u64::from_le_bytes(word);
    }
    if how & 2 == 2 {
        // Superblocks, tails and the table, then chunks.
        mend(&mut image, 4 * CHUNK);
    }
    let sim = Arc::new(Sim::from_image(&image, CAPACITY));
    if strings {
        let Ok(map) = PmMap::<[u8], [u8]>::open_on(sim, options()) else {
            return;
        };
        let _ = map.verify();
        for (key, _) in map.iter().flatten() {
            let _ = map.get(key);
        }
        for key in 0..30 {
            let _ = map.put(text(key * 7), text(key));
            let _ = map.delete(text(key * 3));
        }
        let _ = map.iter().rev().count();
        let _ = map.verify();
    } else {
        let Ok(map) = PmMap::<u64, u64>::open_on(sim, options()) else {
            return;
        };
        let _ = map.verify();
        for (key, _) in map.iter().flatten() {
            let _ = map.get(key);
        }
        for key in 0..30 {
            let _ = map.put(u64::wrapping_mul(key, 0x0123_4567_89ab_cdef), key);
            let _ = map.delete(key * 3);
        }
        let _ = map.iter().rev().count();
        let _ = map.verify();
    }
});
