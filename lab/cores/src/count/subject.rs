//! The process that is counted: two threads with an operation each, and marks before and behind it.

use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::operation::{Operation, Scratch, Store, Structure};

/// Records of the structure: some thousand pages, so that the file has room to spare, as usual.
const RECORDS: u64 = 100_000;

/// Operations before anything is counted: memory is there, all paths have run.
const WARM: u64 = 300;

/// Operations that are timed.
const TIMED: u64 = 2_000;

/// What stands before and behind an operation, as a system call that no operation makes.
#[inline(never)]
fn mark() {
    nix::unistd::getppid();
}

/// Which record thread `who` takes next: each has a quarter of its own, far from the other's.
fn record(who: u64, i: u64) -> u64 {
    who * RECORDS / 2 + i * 611 % (RECORDS / 4)
}

/// Says the time of an operation of one thread, and the numbers of its threads, waits for a line, and runs
/// operations for ever.
pub fn subject(structure: Structure, operation: Operation, folder: &Path) -> Result<()> {
    // What goes on step by step looks idle: a checkpoint would begin in the background, and behind its sync the log
    // goes by its mutex for a while.
    let store = Store::new(structure, folder, RECORDS, false)?;
    let mut scratch = Scratch::default();
    let began = Instant::now();
    let timed = if operation == Operation::SyncedPut {
        20
    } else {
        TIMED
    };
    for i in 0..timed {
        store.call(operation, record(0, i), &mut scratch)?;
    }
    let alone = began.elapsed().as_nanos() as f64 / timed as f64;
    let begin = AtomicBool::new(false);
    let (send, numbers) = std::sync::mpsc::channel();
    std::thread::scope(|scope| -> Result<()> {
        let threads = [0, 1].map(|who| {
            let (store, begin, send) = (&store, &begin, send.clone());
            scope.spawn(move || -> Result<()> {
                let mut scratch = Scratch::default();
                for i in 0..WARM {
                    store.call(operation, record(who, i), &mut scratch)?;
                }
                // Who hangs up has lost the other thread, which says why.
                let _ = send.send((who, nix::unistd::gettid()));
                while !begin.load(Ordering::Acquire) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                for i in WARM.. {
                    mark();
                    store.call(operation, record(who, i), &mut scratch)?;
                    mark();
                }
                Ok(())
            })
        });
        drop(send);
        let mut tids: Vec<_> = numbers.iter().take(2).collect();
        tids.sort_by_key(|(who, _)| *who);
        for (_, tid) in &tids {
            print!("{tid} ");
        }
        println!("{alone}");
        std::io::stdin().read_exact(&mut [0])?;
        begin.store(true, Ordering::Release);
        for thread in threads {
            thread.join().expect("a thread panicked")?;
        }
        Ok(())
    })
}
