//! What makes reads: it takes them, and answers them in any order.

use std::os::fd::BorrowedFd;

use crate::disk::DiskRead;

/// Reads of one caller that are under way at a time. A virtual disk gave 15,000 reads of 16 KiB a second to four,
/// 20,000 to sixteen and no more to sixty-four; what a read takes of the processor falls until there are about 32.
pub const UNDER_WAY: usize = 32;

/// What takes reads and answers them, in any order.
pub trait Queue {
    /// Takes a read; whether it could. At most [`UNDER_WAY`] at a time.
    ///
    /// # Safety
    /// The file, the buffers of `read` and the list of them stay as they are, used by no thread, until
    /// [`Queue::answer`] has named `number`.
    unsafe fn ask(&mut self, file: BorrowedFd<'_>, read: &mut DiskRead<'_>, number: u64) -> bool;

    /// The number of a read that is not under way any more, and its bytes. One is under way.
    fn answer(&mut self) -> (u64, usize);
}
