//! Pages that stay in memory for a while without a latch: a thread is about to change them and must not wait
//! for a disk then.

use terrace_base::PageId;
use terrace_base::sync::atomic::Ordering;

use crate::enter::retry::{Attempt, Retry};
use crate::frames::Frames;

/// A page stays in memory as long as this lives, unless it is freed.
pub struct Staying<'a> {
    frames: &'a Frames,
    frame: u32,
}

impl Frames {
    pub fn let_stay(&self, pid: PageId) -> Attempt<Staying<'_>> {
        // Under its latch: who takes it out of memory has it alone.
        let page = self.shared(pid)?;
        let stays = &self.pool.frame(page.frame).stays;
        let one_more = |stays: u8| stays.checked_add(1);
        match stays.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more) {
            Ok(_) => Ok(Staying {
                frames: self,
                frame: page.frame,
            }),
            Err(_) => Err(Retry::Conflict),
        }
    }
}

impl Drop for Staying<'_> {
    fn drop(&mut self) {
        let stays = &self.frames.pool.frame(self.frame).stays;
        stays.fetch_sub(1, Ordering::Relaxed);
    }
}
