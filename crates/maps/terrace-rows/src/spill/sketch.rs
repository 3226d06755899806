//! How often cold rows were asked for of late: counters of a byte, two for each key, halved now and then. A row comes
//! into memory when it is asked for again before it is forgotten.

/// The sketch.
pub struct Sketch {
    counters: Vec<u8>,
    added: usize,
}

impl Sketch {
    /// One of this many bytes.
    pub fn new(bytes: usize) -> Sketch {
        Sketch {
            counters: vec![0; bytes.max(256)],
            added: 0,
        }
    }

    fn places(&self, hash: u64) -> [usize; 2] {
        let n = self.counters.len() as u64;
        let of = |half: u64| (((half & 0xffff_ffff) * n) >> 32) as usize;
        [of(hash), of(hash >> 32)]
    }

    /// Counts a key; how often it has been counted, by then. Forgets by halves after `period` keys.
    pub fn count(&mut self, hash: u64, period: usize) -> u8 {
        self.added += 1;
        if self.added > period.max(256) {
            self.counters.iter_mut().for_each(|counter| *counter >>= 1);
            self.added = 0;
        }
        let [a, b] = self.places(hash);
        let least = self.counters[a].min(self.counters[b]);
        for at in [a, b] {
            // Only the lower one: the other one counts for others, too.
            if self.counters[at] == least {
                self.counters[at] = least.saturating_add(1);
            }
        }
        least.saturating_add(1)
    }

    /// Its bytes.
    pub fn memory(&self) -> usize {
        self.counters.capacity()
    }
}
