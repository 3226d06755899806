//! The blocks of a file: whether it keeps those that it has, and how it comes to some.

use std::fs::File;
use std::io;

/// File systems that write each page to another block than the one it had (copy on write), and so need a free
/// one for a page that has one. By the number that the kernel has for each.
#[cfg(all(target_os = "linux", not(miri)))]
const ELSEWHERE: [(u32, &str); 4] = [
    (0x9123_683e, "Btrfs"),
    (0x2fc1_2fc1, "ZFS"),
    (0xca45_1a4e, "bcachefs"),
    (0x3434, "NILFS2"),
];

/// The file system of a file, if it is one of those. One that lies below an overlay is not seen.
#[cfg(all(target_os = "linux", not(miri)))]
pub(super) fn writes_elsewhere(file: &File) -> Option<&'static str> {
    use std::os::fd::AsRawFd;
    let mut about = std::mem::MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the descriptor is open, and the answer has room for what the call writes.
    if unsafe { libc::fstatfs(file.as_raw_fd(), about.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: the call has succeeded, so it has written all of it.
    let kind = unsafe { about.assume_init() }.f_type as u32;
    let found = ELSEWHERE.iter().find(|(number, _)| *number == kind);
    found.map(|(_, name)| *name)
}

/// Gives the file blocks for these bytes, and makes it as long.
#[cfg(all(target_os = "linux", not(miri)))]
pub(super) fn have(file: &File, offset: u64, len: usize) -> io::Result<()> {
    loop {
        match fallocate(file, 0, offset, len) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Takes the blocks of these bytes away. A file system that cannot do it keeps them, which is no fault.
#[cfg(all(target_os = "linux", not(miri)))]
pub(super) fn give(file: &File, offset: u64, len: usize) {
    let how = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    let _ = fallocate(file, how, offset, len);
}

#[cfg(all(target_os = "linux", not(miri)))]
fn fallocate(file: &File, how: i32, offset: u64, len: usize) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let (offset, len) = (offset as libc::off_t, len as libc::off_t);
    // SAFETY: the descriptor is open; the call reads and writes no memory of ours.
    match unsafe { libc::fallocate(file.as_raw_fd(), how, offset, len) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(any(not(target_os = "linux"), miri))]
pub(super) fn writes_elsewhere(_: &File) -> Option<&'static str> {
    None
}

#[cfg(any(not(target_os = "linux"), miri))]
pub(super) fn have(file: &File, offset: u64, len: usize) -> io::Result<()> {
    let end = offset + len as u64;
    match file.metadata()?.len() < end {
        true => file.set_len(end),
        false => Ok(()),
    }
}

#[cfg(any(not(target_os = "linux"), miri))]
pub(super) fn give(_: &File, _: u64, _: usize) {}
