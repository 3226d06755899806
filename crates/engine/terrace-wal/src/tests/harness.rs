//! A log under a run of operations from a seed, with what must survive of it.

use terrace_base::{Error, Result};
use terrace_sim::{Rng, SimDisk};

use super::basics::{Recovered, payload, recover_with, small};
use crate::fault::Fault;
use crate::{Durability, Log, Position};

/// A run: the log, and what is known of what it must give back.
pub(crate) struct Run {
    pub(crate) disk: SimDisk,
    pub(crate) fault: Fault,
    rng: Rng,
    /// None before it is opened and after a crash.
    log: Option<Log>,
    openings: u64,
    seed: u64,
    /// All records in commit order; the first has the sequence number 1.
    history: Vec<Vec<u8>>,
    /// Sequence number of the last record acknowledged as durable, and as written.
    synced: u64,
    written: u64,
    /// The durable superblock, which a checkpoint has written.
    superblock: Option<(Position, u64)>,
    /// The one before it, which must never be opened again once this one has been in use.
    outdated: Option<(Position, u64)>,
    pub(crate) disk_full: u64,
    /// Whether the disk forgets what a sync could not write: then only what was synced is promised.
    pub(crate) forgetful: bool,
}

/// Two of four runs, one of which keeps segments, are with a disk of which parts can be written by copying.
fn is_lending(seed: u64) -> bool {
    seed % 4 >= 2
}

/// How a check ended badly.
pub(crate) type Failure = String;

impl Run {
    pub(crate) fn new(seed: u64, fault: Fault) -> Run {
        let disk = SimDisk::new(seed);
        disk.set_lending(is_lending(seed));
        Run {
            disk,
            fault,
            rng: Rng::new(seed),
            log: None,
            openings: 0,
            seed,
            history: Vec::new(),
            synced: 0,
            written: 0,
            superblock: None,
            outdated: None,
            disk_full: 0,
            forgetful: false,
        }
    }

    /// Makes the log. Until this returns there is no database yet.
    pub(crate) fn create(&mut self) -> Result<()> {
        let log = Log::create(self.disk.shared(), self.options(), 0)?;
        self.superblock = Some((log.position(), 0));
        self.log = Some(log);
        Ok(())
    }

    /// Every other run keeps segments and uses them again, and fills them faster.
    fn hoards(&self) -> bool {
        self.seed % 2 == 1
    }

    fn options(&mut self) -> crate::LogOptions {
        self.openings += 1;
        let mut options = small(self.seed.wrapping_mul(1000) + self.openings);
        options.fault = self.fault;
        options.hoards = self.hoards();
        options
    }

    /// Some operations, until the first error.
    pub(crate) fn work(&mut self, steps: u64) -> Result<()> {
        for _ in 0..steps {
            if self.hoards() && self.rng.percent(12) {
                self.checkpoint()?;
            }
            match self.rng.below(100) {
                0..55 => self.append(Some(Durability::Buffered))?,
                55..65 => self.append(None)?,
                65..88 => self.append(Some(Durability::Sync))?,
                88..94 => self.checkpoint()?,
                94..97 => self.log().flush()?,
                _ => self.log().sync()?,
            }
        }
        Ok(())
    }

    fn log(&self) -> &Log {
        self.log.as_ref().expect("an open log")
    }

    pub(crate) fn append(&mut self, durability: Option<Durability>) -> Result<()> {
        let mut bytes = payload(&mut self.rng);
        if self.hoards() && bytes.len() < 200 {
            bytes = bytes.repeat(9);
        }
        let Some(log) = &self.log else { return Ok(()) };
        let mut reservation = log.reserve(bytes.len())?;
        let appended = match self.rng.below(4) {
            0 => log.append_made(&mut reservation, || bytes.clone()),
            1 => {
                assert_eq!(log.append_if(&mut reservation, &[&bytes], || false), None);
                let appended = log.append_if(&mut reservation, &[&bytes], || true);
                appended.expect("it was checked")
            }
            _ => log.append(&mut reservation, &[&bytes]),
        };
        drop(reservation);
        // From here on the record may be found, acknowledged or not.
        self.history.push(bytes);
        assert_eq!(appended.sequence, self.history.len() as u64);
        if let Some(durability) = durability {
            log.commit(appended, durability)?;
            self.written = appended.sequence;
            if durability == Durability::Sync {
                self.synced = appended.sequence;
            }
        }
        Ok(())
    }

    /// A cut whose superblock is durable at once, ahead of the log.
    fn checkpoint(&mut self) -> Result<()> {
        let cut = self.log().position();
        let generation = self.superblock.map_or(0, |(_, g)| g) + 1;
        if self.rng.percent(30) {
            // The superblock is on its way while the log goes on.
            self.append(Some(Durability::Sync))?;
        }
        let before = self.superblock.replace((cut, generation));
        self.log().checkpointed(cut, generation)?;
        self.outdated = before;
        Ok(())
    }

    /// Forgets the log as a crash of the process does. What was written stays with the system.
    pub(crate) fn kill(&mut self) {
        self.log = None;
    }

    /// Goes on with the disk that a power cut has left.
    pub(crate) fn cut_power(&mut self, seed: u64) {
        self.log = None;
        self.disk = self.disk.crash(seed);
        self.written = self.synced;
    }

    /// Opens the log and checks what is there. An I/O error is handed out, everything else that is
    /// wrong is a failure.
    pub(crate) fn recover(&mut self) -> std::result::Result<Result<()>, Failure> {
        let Some((from, generation)) = self.superblock else {
            return Ok(self.create());
        };
        if let Some((old, old_generation)) = self.outdated
            && self.openings.is_multiple_of(3)
        {
            let options = self.options();
            match recover_with(&self.disk, options, old, old_generation) {
                Err(Error::Corrupt { .. }) => {}
                Err(e) => return Ok(Err(e)),
                Ok(_) => {
                    return Err(
                        "a superblock older than the newest durable one was opened".to_owned()
                    );
                }
            }
        }
        let options = self.options();
        let (log, report, records) = match recover_with(&self.disk, options, from, generation) {
            Ok(found) => found,
            Err(e @ Error::Corrupt { .. }) => return Err(format!("an honest log is refused: {e}")),
            Err(e) => return Ok(Err(e)),
        };
        self.check(from, &records)?;
        let end = from.sequence - 1 + records.len() as u64;
        if report.end.sequence != end + 1 || report.records != records.len() as u64 {
            return Err(format!("the report does not fit: {report:?}"));
        }
        // What follows is appended to what was found.
        self.history.truncate(end as usize);
        (self.synced, self.written) = (end, end);
        self.outdated = self.outdated.or(None);
        self.log = Some(log);
        Ok(Ok(()))
    }

    fn check(&self, from: Position, records: &Recovered) -> std::result::Result<(), Failure> {
        for (i, (sequence, bytes)) in records.iter().enumerate() {
            let expected = from.sequence + i as u64;
            if *sequence != expected {
                return Err(format!("record {expected} came as {sequence}"));
            }
            if self.history.get(expected as usize - 1) != Some(bytes) {
                return Err(format!(
                    "record {expected} is not what was appended as such"
                ));
            }
        }
        let end = from.sequence - 1 + records.len() as u64;
        let promised = match self.forgetful {
            true => self.synced,
            false => self.synced.max(self.written),
        };
        if end < promised {
            return Err(format!(
                "records up to {promised} were acknowledged, found were those up to {end}"
            ));
        }
        Ok(())
    }
}
