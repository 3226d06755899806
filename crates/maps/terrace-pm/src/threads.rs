//! Threads that open a map.

use terrace_base::{Error, Result};

/// Fewer records, or leaves, than this are one thread's work.
pub const PARALLEL: usize = 10_000;

/// Does it on this many threads; what each of them has made.
pub fn on_threads<T: Send>(
    threads: usize,
    work: impl Fn(usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    if threads == 1 {
        return Ok(vec![work(0)?]);
    }
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|t| {
                let work = &work;
                scope.spawn(move || work(t))
            })
            .collect();
        let ended = |_| Error::invalid("a thread that opened the map has ended early");
        let made = workers
            .into_iter()
            .map(|worker| worker.join().map_err(ended)?);
        made.collect()
    })
}
