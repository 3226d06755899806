//! Reading blocks ahead: while the records of one block of a file are merged, the next is on its way.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use terrace_base::disk::DiskFile;
use terrace_base::process::Owner;
use terrace_base::sync::Mutex;
use terrace_base::{AlignedBuf, Error, Result};

/// Reads that are under way at once: what a disk needs to be busy while blocks are long.
const THREADS: usize = 2;

/// A block to be read.
struct Wanted {
    file: Arc<dyn DiskFile>,
    at: u64,
    block: AlignedBuf,
    reply: SyncSender<io::Result<AlignedBuf>>,
}

/// Threads that read.
pub(crate) struct Ahead {
    wanted: Option<Sender<Wanted>>,
    threads: Vec<JoinHandle<()>>,
    owner: Owner,
}

/// A block that will be there.
pub(crate) struct Coming(Receiver<io::Result<AlignedBuf>>);

impl Coming {
    /// Waits for it.
    pub fn wait(self) -> io::Result<AlignedBuf> {
        let gone = |_| Err(io::Error::other("the thread that reads has gone"));
        self.0.recv().unwrap_or_else(gone)
    }
}

impl Ahead {
    pub fn start() -> Result<Ahead> {
        let (wanted, to_read) = channel::<Wanted>();
        let to_read = Arc::new(Mutex::new(to_read));
        let mut ahead = Ahead {
            wanted: Some(wanted),
            threads: Vec::with_capacity(THREADS),
            owner: Owner::here(),
        };
        for _ in 0..THREADS {
            let to_read = to_read.clone();
            let thread = std::thread::Builder::new()
                .name("terrace-ahead".into())
                .spawn(move || read_all(&to_read))
                .map_err(|e| Error::io("starting", "a thread that reads", e))?;
            ahead.threads.push(thread);
        }
        Ok(ahead)
    }

    /// Asks for a block.
    pub fn ask(&self, file: &Arc<dyn DiskFile>, at: u64, block: AlignedBuf) -> Coming {
        let (reply, coming) = sync_channel(1);
        let wanted = Wanted {
            file: file.clone(),
            at,
            block,
            reply,
        };
        // Where no thread reads, the answer says so.
        let _ = self.wanted.as_ref().map(|all| all.send(wanted));
        Coming(coming)
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        if !self.owner.is_here() {
            // In a child there are no such threads.
            std::mem::forget((self.wanted.take(), std::mem::take(&mut self.threads)));
            return;
        }
        self.wanted = None;
        for thread in self.threads.drain(..) {
            // A panic of the thread has been reported by the panic hook already.
            let _ = thread.join();
        }
    }
}

fn read_all(wanted: &Mutex<Receiver<Wanted>>) {
    loop {
        let next = wanted.lock().recv();
        let Ok(mut next) = next else { return };
        let read = next.file.read_at(&mut next.block, next.at);
        // Who asked may be gone.
        let _ = next.reply.send(read.map(|()| next.block));
    }
}
