//! The socket and the thread that waits at it.
//!
//! Invariants: there is a socket only while the database is open, and no user but the owner of the process
//! (or root) is let in. No thread of it outlives [`Beside::stop`], so none keeps a closed
//! database's folder locked. The socket is made and taken away in the folder itself, whatever its name is by
//! then, and only the one that was made here is taken away.

use std::fs::File;
use std::io::{self, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::fs::{AtFlags, Mode};
use rustix::io::Errno;
use terrace_base::disk::Disk;
use terrace_base::sync::Mutex;
use terrace_base::{Error, Result};

use super::protocol::{MAX_CONNECTIONS, PATIENCE};
use super::serve::{refuse, serve};
use super::socket::{SOCKET, reach, through};
use crate::core::Core;
use crate::gentle::Cancel;
use crate::handle::shared::{Beside, Handle};

/// The open socket of a database. It ends with [`Beside::stop`].
struct Listening {
    directory: File,
    /// Device and number of the socket's file.
    made: Option<(u64, u64)>,
    socket: UnixListener,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What the threads know of each other.
struct Shared {
    stopped: AtomicBool,
    connections: Mutex<Vec<Connection>>,
}

/// A client that asks, and the thread that answers.
struct Connection {
    stream: UnixStream,
    thread: JoinHandle<()>,
    /// Ends the command that is under way, if it takes long.
    cancel: Cancel,
}

/// Opens the socket of a database, if its options say so.
pub fn listen(handle: &Handle, disk: &dyn Disk) -> Result<()> {
    if handle.core().options().control {
        let folder = disk.folder().ok_or_else(|| {
            Error::invalid(
                "Options::control needs a folder for its socket, and the files of this database lie in none; open it without",
            )
        })?;
        let listening = Listening::start(folder, disk.directory(), handle.core().clone())?;
        handle.serve_beside(Box::new(listening));
    }
    Ok(())
}

impl Listening {
    /// Listens in a folder, of which there is a handle if its disk has one. The caller holds the lock of the
    /// folder, so a socket that is there is that of a process that has died.
    fn start(folder: &Path, directory: Option<File>, core: Arc<Core>) -> Result<Listening> {
        let failed = |e: io::Error| Error::io("opening", SOCKET, e);
        let directory = directory.map_or_else(|| File::open(folder), Ok);
        let directory = directory.map_err(failed)?;
        match rustix::fs::unlinkat(&directory, SOCKET, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(e) => return Err(failed(e.into())),
        }
        let (short, _kept) = match through(&directory) {
            Some(path) => (path, None),
            None => reach(folder).map_err(failed)?,
        };
        let socket = UnixListener::bind(short).map_err(failed)?;
        // Who comes before this is done is looked at all the same.
        let ours = Mode::RUSR | Mode::WUSR;
        rustix::fs::chmodat(&directory, SOCKET, ours, AtFlags::empty())
            .map_err(|e| failed(e.into()))?;
        let made = number_of(&directory);
        let shared = Arc::new(Shared {
            stopped: AtomicBool::new(false),
            connections: Mutex::default(),
        });
        let accepting = (socket.try_clone().map_err(failed)?, shared.clone());
        let thread = std::thread::Builder::new()
            .name("terrace-control".into())
            .spawn(move || accept(&accepting.0, &accepting.1, &core))
            .map_err(failed)?;
        Ok(Listening {
            directory,
            made,
            socket,
            shared,
            thread: Some(thread),
        })
    }
}

impl Beside for Listening {
    /// Takes the socket away, ends all connections and the commands that are under way, and waits for them: for
    /// a checkpoint until it is made, for others not long.
    fn stop(mut self: Box<Self>) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        // No client waits at it any more, and who does wait there is woken.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
        if self.made.is_some() && number_of(&self.directory) == self.made {
            let _ = rustix::fs::unlinkat(&self.directory, SOCKET, AtFlags::empty());
        }
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported by the panic hook already; so below.
            let _ = thread.join();
        }
        let connections = std::mem::take(&mut *self.shared.connections.lock());
        for connection in &connections {
            connection.cancel.cancel();
            let _ = connection.stream.shutdown(Shutdown::Both);
        }
        for connection in connections {
            let _ = connection.thread.join();
        }
    }
}

/// Device and number of the socket that the folder has now.
fn number_of(directory: &File) -> Option<(u64, u64)> {
    let stat = rustix::fs::statat(directory, SOCKET, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some((stat.st_dev, stat.st_ino))
}

fn accept(socket: &UnixListener, shared: &Arc<Shared>, core: &Arc<Core>) {
    let _watch = core
        .store()
        .watch("the thread that hears what others ask for");
    while !shared.stopped.load(Ordering::SeqCst) {
        let stream = match socket.accept() {
            Ok((stream, _)) => stream,
            Err(_) if shared.stopped.load(Ordering::SeqCst) => return,
            Err(_) => {
                // Too many open files, for example: it passes, or no client gets in.
                std::thread::sleep(std::time::Duration::from_millis(100));
                continue;
            }
        };
        // Who does not hear us is closed.
        let _ = admit(stream, shared, core);
    }
}

/// Begins a connection on a thread of its own, or says why not.
fn admit(mut stream: UnixStream, shared: &Arc<Shared>, core: &Arc<Core>) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    if let Some(refusal) = stranger(&stream)? {
        return stream.write_all(&refuse("invalid", refusal));
    }
    let mut connections = shared.connections.lock();
    connections.retain(|connection| !connection.thread.is_finished());
    if connections.len() >= MAX_CONNECTIONS {
        let text = format!("{MAX_CONNECTIONS} connections are open already; close one of them");
        return stream.write_all(&refuse("busy", text));
    }
    let ours = stream.try_clone()?;
    let core = core.clone();
    let cancel = Cancel::new();
    let its = cancel.clone();
    let thread = std::thread::Builder::new()
        .name("terrace-asked".into())
        .spawn(move || {
            let _watch = core.store().watch("a thread that answers others");
            // However it ends there is no caller to tell.
            let _ = serve(&mut stream, &core, &its);
            // The other side sees the end although a copy of the stream is kept.
            let _ = stream.shutdown(Shutdown::Both);
        })?;
    connections.push(Connection {
        stream: ours,
        thread,
        cancel,
    });
    Ok(())
}

/// Why whoever is at the other end may not ask, if so.
fn stranger(stream: &UnixStream) -> io::Result<Option<String>> {
    let peer = rustix::net::sockopt::socket_peercred(stream)?.uid;
    let own = rustix::process::geteuid();
    let may = peer == own || peer.is_root();
    Ok((!may).then(|| {
        let (peer, own) = (peer.as_raw(), own.as_raw());
        format!("the database belongs to user {own}, and you are user {peer}; ask as that user")
    }))
}
