//! The state behind a simulated disk: files by number, names visible and durable, faults, the trace.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use terrace_base::checksum;

use crate::fault::{Fault, Injection, Op};
use crate::file::{FileState, Keep};
use terrace_base::random::Random as Rng;

/// Everything a simulated disk knows.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) files: BTreeMap<u64, FileState>,
    pub(crate) names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    /// Creations (`Some`) and deletions (`None`) since the directory was last synced.
    pending_names: Vec<(String, Option<u64>)>,
    next_file: u64,
    pub(crate) injections: Vec<Injection>,
    /// Whether the cache lets go of what a failed sync left in it.
    pub(crate) forgetful: bool,
    /// Whether files can be written by copying.
    pub(crate) lending: bool,
    /// Bytes that all files together may have.
    pub(crate) capacity: Option<u64>,
    pub(crate) powered: bool,
    pub(crate) calls: u64,
    pub(crate) calls_of: BTreeMap<Op, u64>,
    pub(crate) trace: u64,
    pub(crate) bytes_written: u64,
    pub(crate) reads: (u64, u64),
    pub(crate) rng: Rng,
}

/// What a call that was let in has to do.
#[derive(PartialEq, Eq)]
pub(crate) enum Verdict {
    Go,
    /// Do what a failing call does, then return the error of this fault.
    Fail(Fault),
}

impl World {
    pub(crate) fn new(seed: u64) -> World {
        World {
            files: BTreeMap::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            pending_names: Vec::new(),
            next_file: 0,
            injections: Vec::new(),
            forgetful: false,
            lending: false,
            capacity: None,
            powered: true,
            calls: 0,
            calls_of: BTreeMap::new(),
            trace: 0,
            bytes_written: 0,
            reads: (0, 0),
            rng: Rng::new(seed),
        }
    }

    /// Counts and traces a call, and says whether it fails.
    pub(crate) fn enter(&mut self, op: Op, name: &str, detail: u64) -> io::Result<Verdict> {
        if !self.powered {
            return Err(power_is_off());
        }
        self.calls += 1;
        *self.calls_of.entry(op).or_default() += 1;
        let call = checksum::seeded(detail, name.as_bytes());
        self.trace = checksum::mix(self.trace ^ op as u64, call);
        // Every injection counts the call; the first that strikes decides.
        let mut struck = None;
        for injection in &mut self.injections {
            let fault = injection.strikes(op, name);
            struck = struck.or(fault);
        }
        self.injections.retain(|i| i.nth > 0 || i.forever);
        match struck {
            None => Ok(Verdict::Go),
            Some(fault) => {
                if fault == Fault::PowerCut {
                    self.powered = false;
                }
                Ok(Verdict::Fail(fault))
            }
        }
    }

    /// Whether the next call, should it be this one, fails.
    pub(crate) fn would_fail(&self, op: Op, name: &str) -> bool {
        let strikes = |i: &Injection| i.clone().strikes(op, name).is_some();
        !self.powered || self.injections.iter().any(strikes)
    }

    pub(crate) fn used(&self) -> u64 {
        let linked: BTreeSet<u64> = self.names.values().copied().collect();
        linked.iter().map(|id| self.files[id].len()).sum()
    }

    /// Whether file `id` may become `len` bytes long.
    pub(crate) fn fits(&self, id: u64, len: u64) -> bool {
        let Some(capacity) = self.capacity else {
            return true;
        };
        let now = self.files[&id].len();
        len <= now || self.used() + (len - now) <= capacity
    }

    pub(crate) fn create(&mut self, name: &str) -> u64 {
        if let Some(&id) = self.names.get(name) {
            self.file(id).set_len(0);
            return id;
        }
        let id = self.next_file;
        self.next_file += 1;
        self.files.insert(id, FileState::default());
        self.names.insert(name.to_owned(), id);
        self.pending_names.push((name.to_owned(), Some(id)));
        id
    }

    pub(crate) fn delete(&mut self, name: &str) {
        self.names.remove(name);
        self.pending_names.push((name.to_owned(), None));
    }

    /// Gives a file another name and makes all of it zeros. A real disk changes both names at once; here
    /// each survives for itself, so that both may be there, or none.
    pub(crate) fn reuse(&mut self, old: &str, new: &str) -> Option<u64> {
        let id = self.names.remove(old)?;
        self.names.insert(new.to_owned(), id);
        self.pending_names.push((old.to_owned(), None));
        self.pending_names.push((new.to_owned(), Some(id)));
        let zeros = vec![0; self.files[&id].len() as usize];
        self.file(id).write(&zeros, 0);
        Some(id)
    }

    /// Gives a file another name. What had it before goes only when this survives.
    pub(crate) fn rename(&mut self, old: &str, new: &str) -> Option<u64> {
        let id = self.names.remove(old)?;
        self.names.insert(new.to_owned(), id);
        self.pending_names.push((old.to_owned(), None));
        self.pending_names.push((new.to_owned(), Some(id)));
        Some(id)
    }

    pub(crate) fn sync_directory(&mut self) {
        // What is pending, and only that: a change that a failed sync dropped stays lost.
        for (name, id) in std::mem::take(&mut self.pending_names) {
            link(&mut self.durable_names, &name, id);
        }
    }

    /// A directory sync that failed, with the same arbitrariness as that of a file.
    pub(crate) fn sync_directory_failed(&mut self) {
        for (name, id) in std::mem::take(&mut self.pending_names) {
            match self.rng.below(3) {
                0 => link(&mut self.durable_names, &name, id),
                1 => self.pending_names.push((name, id)),
                _ => {}
            }
        }
    }

    pub(crate) fn file(&mut self, id: u64) -> &mut FileState {
        // An id is given out with its file, and files are never taken out of the map: handles of
        // deleted files go on working, as on a real disk.
        self.files.get_mut(&id).expect("a handle's file")
    }

    /// The world that a power cut at this moment leaves.
    pub(crate) fn survivor(&self, keep: Keep, seed: u64) -> World {
        let mut rng = Rng::new(seed);
        let mut names = self.durable_names.clone();
        for (name, id) in &self.pending_names {
            let kept = match keep {
                Keep::All => true,
                Keep::Nothing => false,
                Keep::Some => rng.below(2) == 0,
            };
            if kept {
                link(&mut names, name, *id);
            }
        }
        let mut world = World::new(rng.next_u64());
        world.capacity = self.capacity;
        world.forgetful = self.forgetful;
        world.lending = self.lending;
        for (name, id) in names {
            let file = self.files[&id].survivor(keep, &mut rng);
            let new = world.next_file;
            world.next_file += 1;
            world.files.insert(new, file);
            world.names.insert(name.clone(), new);
            world.durable_names.insert(name, new);
        }
        world
    }

    /// Puts a file there, durably, without counting it as a call.
    pub(crate) fn place(&mut self, name: &str, bytes: Vec<u8>) {
        let id = match self.names.get(name) {
            Some(&id) => id,
            None => {
                let id = self.next_file;
                self.next_file += 1;
                self.names.insert(name.to_owned(), id);
                id
            }
        };
        self.durable_names.insert(name.to_owned(), id);
        self.pending_names.retain(|(n, _)| n != name);
        self.files.insert(id, FileState::durable(bytes));
    }
}

fn link(names: &mut BTreeMap<String, u64>, name: &str, id: Option<u64>) {
    match id {
        Some(id) => names.insert(name.to_owned(), id),
        None => names.remove(name),
    };
}

pub(crate) fn power_is_off() -> io::Error {
    io::Error::other("the simulated power is off")
}

/// The error that a fault returns.
pub(crate) fn error_of(fault: Fault) -> io::Error {
    match fault {
        Fault::Eio => io::Error::other("simulated input/output error"),
        Fault::NoSpace => no_space(),
        Fault::PowerCut => power_is_off(),
    }
}

pub(crate) fn no_space() -> io::Error {
    io::Error::new(
        io::ErrorKind::StorageFull,
        "simulated: no space left on device",
    )
}
