//! The workloads of section 6.1: insert-only, read-only, read/write, scan/insert; and pauses.

use crate::alloc;
use crate::keys::KeySet;
use crate::random::{Random, Zipf};
use crate::rivals::{Maker, Rival};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// What was measured of one map with one key set. Rates are operations a second.
#[derive(Debug, Clone, Default)]
pub struct Row {
    /// Name of the key set.
    pub keys: &'static str,
    /// Name of the map.
    pub map: &'static str,
    /// Bytes in use for each entry after the load.
    pub bytes: f64,
    /// Most bytes in use during the load, by bytes in use after it.
    pub peak: f64,
    /// Insert-only.
    pub insert: f64,
    /// Read-only, Zipf 0.99.
    pub get: f64,
    /// Read-only, Zipf 0.99, 128 keys at a time.
    pub batch: f64,
    /// Half reads, half updates, Zipf 0.99.
    pub read_write: f64,
    /// Scans of 50 entries from random keys.
    pub scan: f64,
    /// Scans, and an insert in twenty operations.
    pub scan_insert: f64,
    /// Longest insert by processor time, in milliseconds, of each the shortest of [`LOADS`] loads;
    /// zero where it was not measured.
    pub pause: f64,
    /// The same by the clock.
    pub pause_wall: f64,
    /// Longest insert of all loads by processor time, with what interrupted it.
    pub worst: f64,
    /// The same by the clock.
    pub worst_wall: f64,
}

/// How much to do.
pub struct Plan {
    /// Entries that are loaded.
    pub entries: usize,
    /// Operations of each workload after the load.
    pub ops: usize,
    /// Whether to measure pauses, which takes [`LOADS`] more loads.
    pub pause: bool,
}

/// Entries of a scan.
pub const SCAN: usize = 50;
const BATCH: usize = 128;

/// Loads by which pauses are measured. All do the same, so what makes an insert long in all of
/// them is the map's; what other programs and the host interrupt is another insert each time.
pub const LOADS: usize = 3;

/// Operations a second of processor time, so that time taken by other programs does not count.
fn rate(n: usize, run: impl FnOnce()) -> f64 {
    let start = processor_time();
    run();
    n as f64 / (processor_time() - start).as_secs_f64()
}

/// A workload is run in this many slices, and the fastest counts: other programs that share the
/// caches and the memory slow a slice down, nothing speeds one up.
const SLICES: usize = 16;

/// The rate of the fastest slice of `0..n`.
fn best(n: usize, mut run: impl FnMut(std::ops::Range<usize>)) -> f64 {
    let slice = n.div_ceil(SLICES);
    (0..n).step_by(slice).fold(0.0, |most: f64, from| {
        let to = (from + slice).min(n);
        // A short last slice says little.
        let rate = rate(to - from, || run(from..to));
        if to - from == slice {
            most.max(rate)
        } else {
            most
        }
    })
}

/// Keys to ask for, the same for every map.
pub struct Probes<S> {
    /// By popularity.
    pub zipf: S,
    /// Any.
    pub uniform: S,
}

impl<S: KeySet> Probes<S> {
    /// Probes for the first `plan.entries` keys of a set.
    pub fn new(keys: &S, plan: &Plan) -> Self {
        let mut random = Random(3);
        let zipf = Zipf::new(plan.entries, 0.99);
        let places: Vec<usize> = (0..plan.ops).map(|_| zipf.next(&mut random)).collect();
        let uniform: Vec<usize> = (0..plan.ops / 4)
            .map(|_| random.below(plan.entries))
            .collect();
        Probes {
            zipf: keys.pick(&places),
            uniform: keys.pick(&uniform),
        }
    }
}

/// Runs all workloads on one map. The key set has a tenth more keys than are loaded.
pub fn run<S: KeySet>(
    name: &'static str,
    keys: &S,
    probes: &Probes<S>,
    maker: &Maker<S::Key>,
    plan: &Plan,
) -> Row {
    let n = plan.entries;
    let mut row = Row {
        keys: name,
        map: maker.name,
        ..Row::default()
    };
    let before = alloc::now();
    alloc::mark();
    let mut map = (maker.make)();
    row.insert = rate(n, || load(&mut *map, keys, n, |insert| insert()));
    let used = alloc::now() - before;
    row.bytes = used as f64 / n as f64;
    row.peak = (alloc::most() - before) as f64 / used as f64;

    // One short round first, so that caches and branch predictors are not those of the load.
    for i in 0..probes.uniform.len().min(100_000) {
        black_box(map.get(probes.uniform.get(i)));
    }
    let ops = probes.zipf.len();
    row.get = best(ops, |slice| {
        for i in slice {
            assert!(
                map.get(probes.zipf.get(i)).is_some(),
                "{} lost a key",
                maker.name
            );
        }
    });
    row.batch = best(ops, |slice| {
        let all: Vec<&S::Key> = slice.map(|i| probes.zipf.get(i)).collect();
        for keys in all.chunks(BATCH) {
            black_box(map.get_all(keys));
        }
    });
    let scans = probes.uniform.len() / 2;
    row.scan = best(scans, |slice| {
        for i in slice {
            black_box(map.scan(probes.uniform.get(i), SCAN));
        }
    });
    row.read_write = best(ops, |slice| {
        for i in slice {
            half_updates(&mut *map, probes.zipf.get(i), i);
        }
    });
    let mut fresh = n;
    row.scan_insert = best(scans, |slice| {
        for i in slice {
            if i % 20 == 19 && fresh < keys.len() {
                map.insert(keys.get(fresh), 1);
                fresh += 1;
            } else {
                black_box(map.scan(probes.uniform.get(scans + i), SCAN));
            }
        }
    });
    drop(map);
    if plan.pause {
        pauses(&mut row, keys, maker, n);
    }
    row
}

/// Operation `i` of half reads and half updates.
#[inline]
pub fn half_updates<K: ?Sized>(map: &mut dyn Rival<K>, key: &K, i: usize) {
    if i.is_multiple_of(2) {
        black_box(map.get(key));
    } else {
        map.insert(key, i as u64);
    }
}

/// Measures the longest inserts of `n`.
fn pauses<S: KeySet>(row: &mut Row, keys: &S, maker: &Maker<S::Key>, n: usize) {
    let nanos = |time: Duration| u32::try_from(time.as_nanos()).unwrap_or(u32::MAX);
    // Of each insert the shortest time by the processor's clock and by the wall's.
    let mut least = vec![[u32::MAX; 2]; n];
    let mut worst = [0; 2];
    for _ in 0..LOADS {
        let mut map = (maker.make)();
        let mut each = least.iter_mut();
        load(&mut *map, keys, n, |insert| {
            let (start, spent) = (Instant::now(), processor_time());
            insert();
            let spent = processor_time() - spent;
            let took = [nanos(spent), nanos(start.elapsed())];
            if let Some(least) = each.next() {
                for i in 0..2 {
                    least[i] = least[i].min(took[i]);
                    worst[i] = worst[i].max(took[i]);
                }
            }
        });
    }
    let ms = |nanos: u32| f64::from(nanos) / 1e6;
    let longest = |i: usize| ms(least.iter().map(|both| both[i]).max().unwrap_or(0));
    (row.pause, row.pause_wall) = (longest(0), longest(1));
    (row.worst, row.worst_wall) = (ms(worst[0]), ms(worst[1]));
}

#[inline]
fn load<S: KeySet>(
    map: &mut dyn Rival<S::Key>,
    keys: &S,
    n: usize,
    mut around: impl FnMut(&mut dyn FnMut()),
) {
    for i in 0..n {
        around(&mut || map.insert(keys.get(i), i as u64));
    }
}

/// Processor time of this thread: what other programs take does not count.
pub fn processor_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a live timespec, which the call fills in.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
