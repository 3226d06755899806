//! Buffers for batches of page writes.

use terrace_base::AlignedBuf;
use terrace_base::sync::{Condvar, Mutex};

use crate::parts::options::WRITE_BUFFERS;

/// All of them, lent to one writer at a time.
pub struct Buffers {
    free: Mutex<Vec<AlignedBuf>>,
    returned: Condvar,
}

impl Buffers {
    pub fn new(pages: usize, page_bytes: usize) -> Buffers {
        let free = (0..WRITE_BUFFERS)
            .map(|_| AlignedBuf::zeroed(pages * page_bytes))
            .collect();
        Buffers {
            free: Mutex::new(free),
            returned: Condvar::new(),
        }
    }

    pub fn take(&self) -> AlignedBuf {
        let mut free = self.free.lock();
        loop {
            if let Some(buffer) = free.pop() {
                return buffer;
            }
            self.returned.wait(&mut free);
        }
    }

    pub fn give(&self, buffer: AlignedBuf) {
        self.free.lock().push(buffer);
        self.returned.notify_one();
    }
}
