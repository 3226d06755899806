//! What is done with no latch held, and what is not done without one (rules 14 and 15).

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::hooked::Hooked;
use terrace_pm::faults::{Planted, plant};
use terrace_pm::pm::{Count, Pm, Sim};
use terrace_pm::{Options, PmMap};

type Ints = PmMap<u64, u64>;

fn tiny() -> Options {
    Options::new().tiny().memory(1 << 20)
}

/// A thread that nothing holds up answers within this time, on a busy machine too.
const WAITED: Duration = Duration::from_secs(3);

/// Puts many pairs while each growing of the file waits until another thread has put what it wants to; how
/// often it waited in vain, once at most.
fn growing_waits(fault: Option<Planted>) -> usize {
    let (asked, hears): (Sender<()>, Receiver<()>) = channel();
    let (says, done): (Sender<()>, Receiver<()>) = channel();
    let talk = Mutex::new((asked, done, 0usize));
    let (late, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let noted = late.clone();
    let pm = Hooked::new(Sim::new(4 << 20)).growing(move |sim, bytes| {
        let mut talk = talk.lock().unwrap();
        talk.2 += 1;
        // The first ones make the map.
        let is_asked = talk.2 > 4 && noted.load(SeqCst) == 0;
        if is_asked && talk.0.send(()).is_ok() {
            let answer = talk.1.recv_timeout(WAITED);
            noted.fetch_add(u64::from(answer.is_err()), SeqCst);
        }
        drop(talk);
        sim.grow(bytes)
    });
    let map = Ints::open_on(Arc::new(pm), tiny()).unwrap();
    std::thread::scope(|scope| {
        let other = map.clone();
        let (ended, is_over) = (over.clone(), over.clone());
        scope.spawn(move || {
            while ended.load(SeqCst) == 0 {
                if hears.recv_timeout(Duration::from_millis(20)).is_err() {
                    continue;
                }
                // Every node is looked at, and both partitions are written to.
                for key in 0..400u64 {
                    other.get(key * 5).unwrap();
                }
                for key in [1, 1002] {
                    other.put(key, key).unwrap();
                }
                let _ = says.send(());
            }
        });
        plant(fault);
        for key in 0..400u64 {
            map.put(key * 5 % 2003, key).unwrap();
            map.put(key * 5 % 2003, key + 1).unwrap();
        }
        plant(None);
        is_over.store(1, SeqCst);
    });
    map.crash();
    late.load(SeqCst) as usize
}

#[test]
fn nobody_waits_for_a_file_to_grow() {
    assert_eq!(growing_waits(None), 0);
}

#[test]
fn a_file_that_grows_when_the_room_is_needed_is_found() {
    assert!(growing_waits(Some(Planted::GrowthHeld)) > 0);
}

/// A get that is held up where it reads the leaf, for long enough that another thread could split the leaf.
fn get_meets_a_split(fault: Option<Planted>) -> Option<u64> {
    let (asked, hears): (Sender<()>, Receiver<()>) = channel();
    let (says, done): (Sender<()>, Receiver<()>) = channel();
    let armed = Arc::new(AtomicU64::new(0));
    let is_armed = armed.clone();
    let talk = Mutex::new((asked, done));
    let pm = Hooked::new(Sim::new(1 << 20)).reading(move || {
        // Once, by the reader, who holds the latch of the node now, or should.
        if is_armed.swap(0, SeqCst) == 1 {
            let talk = talk.lock().unwrap();
            talk.0.send(()).unwrap();
            // With the latch held no thread can answer.
            let _ = talk.1.recv_timeout(Duration::from_millis(500));
        }
    });
    let map = Ints::open_on(Arc::new(pm), tiny()).unwrap();
    // Four pairs in the one leaf, and other ones in the buffer.
    for key in [10, 20, 30, 40] {
        map.put(key, key).unwrap();
    }
    for key in [1, 2] {
        for round in 0..20 {
            map.put(key, round).unwrap();
        }
    }
    for key in [1, 2] {
        map.delete(key).unwrap();
    }
    let found = std::thread::scope(|scope| {
        let other = map.clone();
        scope.spawn(move || {
            hears.recv().unwrap();
            for key in 11..60 {
                other.put(key, key).unwrap();
            }
            let _ = says.send(());
        });
        plant(fault);
        armed.store(1, SeqCst);
        let found = map.get(40).unwrap();
        plant(None);
        found
    });
    map.crash();
    found
}

#[test]
fn a_leaf_does_not_change_while_it_is_read() {
    assert_eq!(get_meets_a_split(None), Some(40));
}

#[test]
fn a_reader_that_has_let_go_of_the_latch_is_found() {
    assert_ne!(get_meets_a_split(Some(Planted::ReadWithoutLatch)), Some(40));
}

/// The most fences and lines of one put, among many.
fn longest_put(fault: Option<Planted>) -> (u64, u64) {
    let counted = Arc::new(Count::new(Sim::new(64 << 20)));
    let options = Options::new().memory(200_000).capacity(64 << 20);
    let map = Ints::open_on(counted.clone(), options).unwrap();
    plant(fault);
    let mut most = (0, 0);
    for i in 0..60_000u64 {
        let before = counted.counts();
        let key = i.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        map.put(if i.is_multiple_of(3) { i % 100 } else { key }, i)
            .unwrap();
        let after = counted.counts();
        most.0 = most.0.max(after.fences - before.fences);
        most.1 = most.1.max(after.lines - before.lines);
    }
    plant(None);
    most
}

#[test]
fn the_work_of_a_put_is_bounded() {
    let (fences, lines) = longest_put(None);
    assert!(
        fences <= 12 && lines <= 80,
        "{fences} fences, {lines} lines"
    );
}

#[test]
fn a_put_that_cleans_without_end_is_found() {
    let (fences, lines) = longest_put(Some(Planted::CleanWithoutEnd));
    assert!(fences > 12 || lines > 80, "{fences} fences, {lines} lines");
}
