//! The blocks of a file: every byte that is mapped has one of its own before any code looks at it. A store to a
//! page without one would end the process on a full disk, and on tmpfs a load would, too.

use std::fs::File;
use std::os::fd::AsFd;

use rustix::fs::{FallocateFlags, SeekFrom, fallocate};
use rustix::io::Errno;
use terrace_base::{Error, Result};

/// A file grows by pieces of this size at most: where signals come often, one that takes longer than the time
/// between two of them never ends.
const PIECE: u64 = 16 << 20;
/// Pieces are not made smaller than this when a signal comes between.
const LEAST_PIECE: u64 = 64 << 10;

/// File systems that write each page to another block than the one it had (copy on write), and so need a free
/// one for a page that has one. By the number that the kernel has for each. Btrfs can be told not to, but before
/// Linux 6.16 it asks for a free block all the same, and a snapshot makes it copy again.
const ELSEWHERE: [(u32, &str); 4] = [
    (0x9123_683e, "Btrfs"),
    (0x2fc1_2fc1, "ZFS"),
    (0xca45_1a4e, "bcachefs"),
    (0x3434, "NILFS2"),
];

/// An error where the file system of a file does not keep the blocks that a file has. One that lies below an
/// overlay is not seen.
pub fn check_in_place(file: &File, name: &str) -> Result<()> {
    let about = rustix::fs::fstatfs(file).map_err(|e| Error::io("looking at", name, e.into()))?;
    check_kind(about.f_type as u32, name)
}

fn check_kind(kind: u32, name: &str) -> Result<()> {
    let found = ELSEWHERE.iter().find(|(number, _)| *number == kind);
    let Some((_, system)) = found else {
        return Ok(());
    };
    Err(Error::invalid(format!(
        "{name} lies on {system}, which writes each page to a new block, so that a full disk would end the process: put the map on ext4, XFS or tmpfs; one that is there can be copied when it is closed"
    )))
}

/// Gives blocks to what of the file has none, or shares them with another file. Nothing but that changes.
pub fn complete(file: &File, name: &str, len: u64) -> Result<()> {
    // Where blocks can be shared at all, this makes them the file's own.
    let unshared = in_pieces(0, len, |from, bytes| {
        fallocate(file, FallocateFlags::UNSHARE_RANGE, from, bytes)
    });
    match unshared {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {}
        Err(error) => return Err(no_room(name, error)),
    }
    let mut from = 0;
    while let Some((hole, end)) = next_hole(file, from, len) {
        in_pieces(hole, end, |from, bytes| {
            fallocate(file, FallocateFlags::empty(), from, bytes)
        })
        .map_err(|error| no_room(name, error))?;
        from = end;
    }
    Ok(())
}

fn no_room(name: &str, error: Errno) -> Error {
    if error == Errno::NOSPC || error == Errno::DQUOT {
        let what = format!(
            "{name} has holes, or blocks that it shares with a copy, and its disk has none to fill them: make room there first"
        );
        return Error::DiskFull { what };
    }
    not_reserved(name, error)
}

/// Gives the file blocks from one byte to another, where it ends at the first.
pub fn allocate(file: &File, name: &str, from: u64, to: u64) -> Result<()> {
    in_pieces(from, to, |from, bytes| {
        fallocate(file, FallocateFlags::empty(), from, bytes)
    })
    .map_err(|error| not_reserved(name, error))
}

fn not_reserved(name: &str, error: Errno) -> Error {
    match error {
        Errno::OPNOTSUPP | Errno::NOSYS => Error::invalid(format!(
            "the file system of {name} cannot reserve space (fallocate), and without it a full disk would end the process: put the map on ext4, XFS or tmpfs"
        )),
        error => Error::io("growing", name, error.into()),
    }
}

/// Does something piece by piece. tmpfs gives back what it had of one between which a signal came.
fn in_pieces(
    mut from: u64,
    to: u64,
    mut act: impl FnMut(u64, u64) -> rustix::io::Result<()>,
) -> rustix::io::Result<()> {
    let mut piece = PIECE;
    while from < to {
        let len = piece.min(to - from);
        match act(from, len) {
            Ok(()) => from += len,
            Err(Errno::INTR) => piece = (piece / 2).max(LEAST_PIECE),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The next bytes without blocks: where they begin and end. What was reserved and never written may be among
/// them; to reserve it again costs nothing.
fn next_hole(file: impl AsFd, from: u64, len: u64) -> Option<(u64, u64)> {
    let hole = rustix::fs::seek(&file, SeekFrom::Hole(from)).ok()?;
    if hole >= len {
        return None;
    }
    // Beyond the last data there is none, and that is an error.
    let end = rustix::fs::seek(&file, SeekFrom::Data(hole)).unwrap_or(len);
    Some((hole, end.min(len)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::{FileExt, MetadataExt};

    #[test]
    fn a_sparse_file_gets_a_block_for_every_byte_and_keeps_its_content() {
        for folder in [tempfile::tempdir(), tempfile::tempdir_in("/dev/shm")] {
            let Ok(folder) = folder else { continue };
            let path = folder.path().join("sparse");
            let mut file = File::options()
                .read(true)
                .write(true)
                .create_new(true)
                .open(path)
                .unwrap();
            let len = 3 << 20;
            file.set_len(len).unwrap();
            file.write_all(&[7; 100]).unwrap();
            file.write_all_at(&[9; 5000], 1 << 20).unwrap();
            assert!(file.metadata().unwrap().blocks() * 512 < len);
            complete(&file, "sparse", len).unwrap();
            assert!(file.metadata().unwrap().blocks() * 512 >= len);
            let mut bytes = vec![1; len as usize];
            file.read_exact_at(&mut bytes, 0).unwrap();
            assert!(bytes[..100] == [7; 100] && bytes[1 << 20..][..5000] == [9; 5000]);
            assert_eq!(bytes.iter().filter(|byte| **byte != 0).count(), 5100);
            // Twice is as once.
            complete(&file, "sparse", len).unwrap();
        }
    }

    #[test]
    fn a_file_system_that_copies_on_write_is_refused_with_what_to_do() {
        for (number, system) in ELSEWHERE {
            let error = check_kind(number, "visits.pm").unwrap_err().to_string();
            assert!(
                error.contains("visits.pm") && error.contains(system) && error.contains("ext4")
            );
        }
        // ext4, XFS and tmpfs are not.
        for number in [0xef53, 0x5846_5342, 0x0102_1994] {
            check_kind(number, "visits.pm").unwrap();
        }
    }
}
