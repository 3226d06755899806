//! Reads that are made together, by each way that there is.

use std::collections::HashSet;
use std::io::{ErrorKind, Write};
use std::os::fd::BorrowedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;

const BLOCK: usize = 512;
const BLOCKS: u64 = 200;

/// A file in which each block is full of its number, as bytes of it say.
fn file() -> File {
    let mut file = tempfile::tempfile().unwrap();
    for block in 0..BLOCKS {
        file.write_all(&[block as u8; BLOCK]).unwrap();
    }
    file
}

/// Reads through `make` with this queue, each of some blocks: where it begins, and how many there are. What became of
/// each: the first bytes of its blocks, or the error.
fn read(
    queue: &mut dyn Queue,
    file: &File,
    wanted: &[(u64, usize)],
) -> Vec<Result<Vec<u8>, ErrorKind>> {
    let mut bytes: Vec<Vec<u8>> = wanted.iter().map(|(_, n)| vec![0; n * BLOCK]).collect();
    let mut reads: Vec<DiskRead<'_>> = wanted
        .iter()
        .zip(&mut bytes)
        .map(|((from, _), bytes)| DiskRead {
            offset: from * BLOCK as u64,
            bufs: bytes.chunks_mut(BLOCK).map(IoSliceMut::new).collect(),
        })
        .collect();
    let mut found: Vec<Option<Result<Vec<u8>, ErrorKind>>> = vec![None; wanted.len()];
    make(queue, file, &mut reads, &mut |i, read, made| {
        assert_eq!(read.offset, wanted[i].0 * BLOCK as u64);
        let seen = made.map_err(|e| e.kind()).map(|()| {
            let whole = |buf: &IoSliceMut<'_>| {
                assert!(buf.iter().all(|byte| *byte == buf[0]));
                buf[0]
            };
            read.bufs.iter().map(whole).collect()
        });
        assert!(found[i].replace(seen).is_none(), "{i} was told of twice");
    });
    found
        .into_iter()
        .map(|found| found.expect("told of"))
        .collect()
}

/// As [`read`] should answer.
fn expected(wanted: &[(u64, usize)]) -> Vec<Result<Vec<u8>, ErrorKind>> {
    let one = |(from, count): &(u64, usize)| {
        let blocks = *from..*from + *count as u64;
        match blocks.end <= BLOCKS {
            true => Ok(blocks.map(|block| block as u8).collect()),
            false => Err(ErrorKind::UnexpectedEof),
        }
    };
    wanted.iter().map(one).collect()
}

/// More than can be under way, of one block and of several; some reach past the end of the file.
fn many() -> Vec<(u64, usize)> {
    (0..5 * UNDER_WAY as u64)
        .map(|i| (i * 37 % (BLOCKS + 3), 1 + (i % 3) as usize))
        .collect()
}

#[test]
fn threads_make_more_reads_than_they_are_and_an_error_is_that_of_its_read() {
    let (file, threads) = (file(), Threads::start());
    for _ in 0..3 {
        assert_eq!(
            read(&mut threads.queue(), &file, &many()),
            expected(&many())
        );
    }
    threads.end();
}

#[test]
fn who_asks_makes_the_reads_where_no_thread_could_be_started() {
    let threads = Threads::none();
    assert_eq!(
        read(&mut threads.queue(), &file(), &many()),
        expected(&many())
    );
    threads.end();
}

#[test]
fn threads_end_with_the_disk() {
    let together = Together::new();
    let threads = together.threads.get_or_init(Threads::start);
    let work = threads.watch();
    assert_eq!(
        read(&mut threads.queue(), &file(), &many()),
        expected(&many())
    );
    assert!(work.strong_count() > 0);
    drop(together);
    assert_eq!(work.strong_count(), 0, "a thread is left");
}

#[cfg(target_os = "linux")]
#[test]
fn a_ring_makes_more_reads_than_it_has_room_for_and_an_error_is_that_of_its_read() {
    let (file, rings) = (file(), ring::Rings::default());
    // A system without it has nothing to show.
    for _ in 0..3 {
        let Some(mut ring) = rings.take() else { return };
        assert_eq!(read(&mut ring, &file, &many()), expected(&many()));
        rings.give_back(ring);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn what_a_ring_does_not_take_any_more_is_read_without_it() {
    let (file, rings) = (file(), ring::Rings::default());
    let Some(mut ring) = rings.take() else { return };
    let mut bytes = [vec![1; BLOCK], vec![1; BLOCK]];
    let mut reads: Vec<DiskRead<'_>> = bytes
        .iter_mut()
        .map(|bytes| DiskRead {
            offset: 0,
            bufs: vec![IoSliceMut::new(bytes)],
        })
        .collect();
    // SAFETY: both are answered below before anything of this goes.
    assert!(unsafe { ring.ask(file.as_fd(), &mut reads[0], 7) });
    assert_eq!(ring.answer(), (7, BLOCK));
    // SAFETY: as above.
    assert!(unsafe { ring.ask(file.as_fd(), &mut reads[1], 8) });
    ring.refuse();
    assert_eq!(ring.answer(), (8, 0));
    // From now on it takes none, and all is read all the same.
    assert_eq!(read(&mut ring, &file, &many()), expected(&many()));
    rings.give_back(ring);
    assert!(rings.take().is_none());
}

/// Takes reads and makes them when they are to be answered, the last first; gives `most` bytes at a time.
#[derive(Default)]
struct Slow {
    asked: HashSet<u64>,
    most: usize,
}

impl Queue for Slow {
    unsafe fn ask(&mut self, _: BorrowedFd<'_>, read: &mut DiskRead<'_>, number: u64) -> bool {
        let from = read.offset / BLOCK as u64;
        for (i, byte) in read
            .bufs
            .iter_mut()
            .flat_map(|buf| buf.iter_mut())
            .enumerate()
        {
            if i < self.most {
                *byte = (from + (i / BLOCK) as u64) as u8;
            }
        }
        self.asked.insert(number)
    }

    fn answer(&mut self) -> (u64, usize) {
        let number = *self.asked.iter().max().expect("one is under way");
        self.asked.remove(&number);
        (number, self.most)
    }
}

/// With the fault it must be found.
fn finds(fault: Fault, test: impl Fn()) {
    test();
    plant(Some(fault));
    let found = catch_unwind(AssertUnwindSafe(test)).is_err();
    plant(None);
    assert!(found, "nobody noticed {fault:?}");
}

#[test]
fn nothing_is_under_way_when_a_panic_goes_on() {
    finds(Fault::LeftUnderWay, || {
        let mut queue = Slow::default();
        let mut bytes = [0; 8 * BLOCK];
        let one = |bytes| DiskRead {
            offset: 0,
            bufs: vec![IoSliceMut::new(bytes)],
        };
        let mut reads: Vec<DiskRead<'_>> = bytes.chunks_mut(BLOCK).map(one).collect();
        let file = file();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            make(&mut queue, &file, &mut reads, &mut |i, _, _| {
                assert_ne!(i, 5, "a panic that is meant");
            });
        }));
        assert!(panicked.is_err());
        assert!(queue.asked.is_empty(), "{:?}", queue.asked);
    });
}

#[test]
fn what_a_short_read_lacks_is_read() {
    finds(Fault::ShortIsWhole, || {
        for most in [1, BLOCK - 1, BLOCK, BLOCK + 1] {
            let mut queue = Slow {
                most,
                ..Slow::default()
            };
            let wanted: Vec<(u64, usize)> = (1..80).map(|i| (i, 1 + (i % 3) as usize)).collect();
            assert_eq!(read(&mut queue, &file(), &wanted), expected(&wanted));
        }
    });
}
