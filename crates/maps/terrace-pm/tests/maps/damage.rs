//! Damaged files: what a flipped bit, a foreign or a newer file is answered with.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_pm::faults::{Planted, plant};
use terrace_pm::pm::Sim;
use terrace_pm::{Error, Options, PmMap};

type Ints = PmMap<u64, u64>;
type Strings = PmMap<[u8], [u8]>;

const CAPACITY: u64 = 96 << 10;

fn tiny() -> Options {
    Options::new().tiny().memory(1 << 20)
}

/// How often a map of byte strings with a flipped bit opens, and says of a key that it is not there.
fn forgotten(fault: Option<Planted>) -> usize {
    let sim = Arc::new(Sim::new(CAPACITY));
    let map = Strings::open_on(sim.clone(), tiny()).unwrap();
    for key in 0..20u8 {
        map.put([key], [key; 12]).unwrap();
    }
    map.close().unwrap();
    let mut forgotten = 0;
    plant(fault);
    flipped(&sim.image(), |_, damaged| {
        let sim = Arc::new(Sim::from_image(damaged, CAPACITY));
        if let Ok(map) = Strings::open_on(sim, tiny()) {
            let is_gone = |key| matches!(map.get([key]), Ok(None));
            forgotten += usize::from((0..20).any(is_gone));
            map.crash();
        }
    });
    plant(None);
    forgotten
}

#[test]
fn a_record_that_is_passed_over_and_may_not_be_is_found() {
    assert_eq!(forgotten(None), 0);
    assert!(forgotten(Some(Planted::PassedOverAnyhow)) > 0);
}

/// Bits of each word that are flipped, one at a time.
const BITS: usize = 3;

/// Every word of the image that is not zero, with some of its bits flipped one at a time.
fn flipped(image: &[u64], mut look: impl FnMut(usize, &[u64])) {
    let factor = std::env::var("TERRACE_TEST_FACTOR").map_or(1, |f| f.parse().unwrap_or(1));
    let mut random = 7u64;
    for word in (0..image.len()).filter(|word| image[*word] != 0) {
        for _ in 0..(BITS * factor).min(64) {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let mut damaged = image.to_vec();
            damaged[word] ^= 1 << (random >> 58);
            look(word, &damaged);
        }
    }
}

/// What a map has, from the front or from the back, until the first error.
fn read<K, V>(pairs: impl Iterator<Item = terrace_pm::Result<(K, V)>>) -> (Vec<(K, V)>, bool) {
    let mut found = Vec::new();
    for pair in pairs {
        match pair {
            Ok(pair) => found.push(pair),
            Err(error) => {
                assert!(matches!(error, Error::Corrupt { .. }), "{error}");
                return (found, false);
            }
        }
    }
    (found, true)
}

#[test]
fn a_flipped_bit_is_an_error_or_does_no_harm_to_keys() {
    let sim = Arc::new(Sim::new(CAPACITY));
    let map = Ints::open_on(sim.clone(), tiny()).unwrap();
    let mut model = BTreeMap::new();
    for key in 0..60u64 {
        map.put(key * 1_000_003, key).unwrap();
        model.insert(key * 1_000_003, key);
    }
    for key in 0..9u64 {
        map.delete(key * 3_000_009).unwrap();
        model.remove(&(key * 3_000_009));
    }
    map.close().unwrap();
    let keys: Vec<u64> = model.keys().copied().collect();
    let (mut refused, mut told) = (0, 0);
    flipped(&sim.image(), |word, damaged| {
        let sim = Arc::new(Sim::from_image(damaged, CAPACITY));
        let map = match Ints::open_on(sim, tiny()) {
            Ok(map) => map,
            Err(Error::Corrupt { .. }) => return refused += 1,
            Err(error) => panic!("word {word}: {error}"),
        };
        let (found, whole) = read(map.iter());
        // Keys are those that are there, in order, up to the error; none is left out, none is another.
        let some: Vec<u64> = found.iter().map(|pair| pair.0).collect();
        assert_eq!(some, keys[..some.len()], "word {word}");
        assert!(!whole || some.len() == keys.len(), "word {word}");
        // A number in a leaf has no checksum: one may be another.
        let others = found.iter().filter(|(k, v)| model[k] != *v).count();
        assert!(others <= 1, "word {word}");
        let (mut back, back_whole) = read(map.iter().rev());
        assert_eq!(back_whole, whole, "word {word}");
        back.reverse();
        let some: Vec<u64> = back.iter().map(|pair| pair.0).collect();
        assert_eq!(some, keys[keys.len() - some.len()..], "word {word}");
        for key in 0..60u64 {
            let key = key * 1_000_003;
            match map.get(key) {
                Ok(value) => assert_eq!(value.is_some(), model.contains_key(&key), "word {word}"),
                Err(error) => assert!(matches!(error, Error::Corrupt { .. }), "{error}"),
            }
        }
        if !whole {
            told += 1;
            assert!(!map.verify().unwrap().is_clean(), "word {word}");
        }
    });
    assert!(
        refused > 100 && told > 100,
        "{refused} refused, {told} told"
    );
}

#[test]
fn a_flipped_bit_of_byte_strings_is_an_error_or_does_no_harm() {
    let sim = Arc::new(Sim::new(CAPACITY));
    let map = Strings::open_on(sim.clone(), tiny()).unwrap();
    let key = |key: u64| {
        // Many share their first eight bytes.
        let mut bytes = b"the key ".to_vec();
        bytes.extend(key.to_string().bytes());
        bytes
    };
    let mut model = BTreeMap::new();
    for k in 0..40u64 {
        let value = vec![k as u8 + 1; k as usize % 9];
        map.put(key(k), value.clone()).unwrap();
        model.insert(key(k), value);
    }
    for k in 0..5u64 {
        map.delete(key(k * 3)).unwrap();
        model.remove(&key(k * 3));
    }
    map.close().unwrap();
    let all: Vec<(Vec<u8>, Vec<u8>)> = model.clone().into_iter().collect();
    let (mut refused, mut told) = (0, 0);
    flipped(&sim.image(), |word, damaged| {
        let sim = Arc::new(Sim::from_image(damaged, CAPACITY));
        let map = match Strings::open_on(sim, tiny()) {
            Ok(map) => map,
            Err(Error::Corrupt { .. }) => return refused += 1,
            Err(error) => panic!("word {word}: {error}"),
        };
        let (found, whole) = read(map.iter());
        assert_eq!(found, all[..found.len()], "word {word}");
        assert!(!whole || found.len() == all.len(), "word {word}");
        let (mut back, back_whole) = read(map.iter().rev());
        back.reverse();
        assert_eq!(back, all[all.len() - back.len()..], "word {word}");
        assert!(!back_whole || back.len() == all.len(), "word {word}");
        for k in 0..40u64 {
            match map.get(key(k)) {
                Ok(value) => assert_eq!(value.as_ref(), model.get(&key(k)), "word {word}"),
                Err(error) => assert!(matches!(error, Error::Corrupt { .. }), "{error}"),
            }
        }
        told += u64::from(!whole);
    });
    assert!(
        refused > 100 && told > 100,
        "{refused} refused, {told} told"
    );
}

#[test]
fn text_that_is_none_is_damage_and_not_absence() {
    let sim = Arc::new(Sim::new(64 << 20));
    let map = PmMap::<u64, str>::open_on(sim.clone(), Options::new().memory(1 << 20)).unwrap();
    map.put(1, "some text of twenty-odd bytes").unwrap();
    map.close().unwrap();
    let mut image = sim.image();
    let some = u64::from_le_bytes(*b"some tex");
    let at = image.iter().position(|word| *word == some).unwrap();
    image[at] ^= 0x80;
    let sim = Arc::new(Sim::from_image(&image, 64 << 20));
    let opened = PmMap::<u64, str>::open_on(sim, Options::new().memory(1 << 20));
    let answer = opened.and_then(|map| map.get(1));
    assert!(matches!(answer, Err(Error::Corrupt { .. })), "{answer:?}");
}

#[test]
fn a_file_cut_anywhere_is_an_error_or_a_map() {
    let sim = Arc::new(Sim::new(CAPACITY));
    let map = Ints::open_on(sim.clone(), tiny()).unwrap();
    for key in 0..40u64 {
        map.put(key, key).unwrap();
    }
    map.close().unwrap();
    let image = sim.image();
    let half = image.len() / 2;
    for len in [0, 1, 100, 1024, 1536, 2048, half, image.len() - 1] {
        let sim = Arc::new(Sim::from_image(&image[..len], CAPACITY));
        if let Ok(map) = Ints::open_on(sim, tiny()) {
            let _ = map.iter().count();
        }
    }
}

#[test]
fn a_newer_file_is_told_from_a_damaged_one() {
    let sim = Arc::new(Sim::new(CAPACITY));
    Ints::open_on(sim.clone(), tiny()).unwrap().close().unwrap();
    let mut image = sim.image();
    let magic = u64::from_le_bytes(*b"TERRACPM");
    for at in [0, 512] {
        image[at + 1] = 99;
        let words = &image[at..at + 17];
        let check = words
            .iter()
            .fold(magic, |sum, word| terrace_base::checksum::mix(sum, *word));
        image[at + 17] = check | 1;
    }
    let sim = Arc::new(Sim::from_image(&image, CAPACITY));
    let error = Ints::open_on(sim.clone(), tiny()).unwrap_err().to_string();
    assert!(error.contains("version 99"), "{error}");
    assert_eq!(sim.image(), image, "it is left alone");
}

#[test]
fn a_foreign_file_that_begins_with_zeros_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.img");
    let mut content = vec![0u8; 2 << 20];
    content.extend(b"what somebody else has there");
    content.resize((2 << 20) + 4096, 0);
    std::fs::write(&path, &content).unwrap();
    let error = Ints::open(&path, Options::new()).unwrap_err();
    assert!(error.to_string().contains("no map"), "{error}");
    assert!(std::fs::read(&path).unwrap() == content);
}

#[test]
fn beginning_anew_with_other_types_destroys_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("map.pm");
    let options = || Options::new().memory(1 << 20).capacity(64 << 20);
    let map = Ints::open(&path, options().boot(1)).unwrap();
    map.put(1, 1).unwrap();
    map.crash();
    let discard = options().boot(2).discard_after_power_loss(true);
    let opened = Strings::open(&path, discard);
    assert!(matches!(opened, Err(Error::Invalid { .. })), "{opened:?}");
    drop(opened);
    let map = Ints::open(&path, options().boot(1)).unwrap();
    assert_eq!(map.get(1).unwrap(), Some(1));
}

/// The blob of a record is not whole: its write was in flight when the power went. What is written afterwards
/// is no reason to ask for it again.
#[test]
fn a_record_that_was_in_flight_in_one_crash_is_none_after_the_next() {
    let options = || Options::new().memory(4 << 20).partitions(1).boot(1);
    let capacity = 64 << 20;
    let sim = Arc::new(Sim::new(capacity));
    let map = Strings::open_on(sim.clone(), options()).unwrap();
    map.put(&b"first"[..], &b"value of before"[..]).unwrap();
    map.put(&b"last"[..], &b"in flight: in flight"[..]).unwrap();
    map.crash();
    let mut image = sim.image();
    let torn = u64::from_le_bytes(*b"lastin f");
    let at = image.iter().position(|word| *word == torn).unwrap();
    image[at] = 0;
    for is_closed in [false, true] {
        let sim = Arc::new(Sim::from_image(&image, capacity));
        let map = Strings::open_on(sim.clone(), options()).unwrap();
        assert_eq!(map.get(&b"last"[..]).unwrap(), None);
        for key in 0..40u8 {
            map.put(vec![key], vec![key; 9]).unwrap();
        }
        if is_closed {
            map.close().unwrap();
        } else {
            map.crash();
        }
        let sim = Arc::new(Sim::from_image(&sim.image(), capacity));
        let map = Strings::open_on(sim, options()).unwrap();
        assert_eq!(map.iter().count(), 41);
        assert!(map.verify().unwrap().is_clean());
    }
}
