//! A whole map in persistent memory: words of its file changed anywhere, checks of superblock, segments and
//! leaves not made anew. Opening, reading and checking end, and in values or errors.
#![no_main]

use std::sync::{Arc, OnceLock};

use terrace_pm::pm::Sim;
use terrace_pm::{Options, PmMap};

const CAPACITY: u64 = 96 << 10;

fn options() -> Options {
    Options::new().tiny().memory(1 << 20)
}

/// A map with leaves, a log and deletes.
fn sound() -> &'static [u64] {
    static IMAGE: OnceLock<Vec<u64>> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let sim = Arc::new(Sim::new(CAPACITY));
        let map = PmMap::<u64, u64>::open_on(sim.clone(), options()).expect("a new map");
        for key in 0..40 {
            map.put(key, key).expect("room");
        }
        for key in 0..5 {
            map.delete(key).expect("room");
        }
        map.crash();
        sim.image()
    })
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut image = sound().to_vec();
    for change in bytes.chunks_exact(10) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % image.len();
        let mut word = [0; 8];
        word.copy_from_slice(&change[2..]);
        image[at] ^= u64::from_le_bytes(word);
    }
    let sim = Arc::new(Sim::from_image(&image, CAPACITY));
    let Ok(map) = PmMap::<u64, u64>::open_on(sim, options()) else {
        return;
    };
    let _ = map.verify();
    for pair in map.iter() {
        if let Ok((key, _)) = pair {
            let _ = map.get(key);
        }
    }
    let _ = map.put(7, 7);
    let _ = map.delete(8);
});
