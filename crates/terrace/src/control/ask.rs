//! The side that asks.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde::de::DeserializeOwned;
use terrace_base::{Error, Result};

use crate::control::{Answer, MAX_ANSWER_BYTES, Request, SOCKET, Version, reach};
use crate::progress::Progress;
use crate::stats::{CheckpointInfo, Stats};
use crate::verify::VerifyReport;

/// How long nothing may be heard: what takes longer tells how far it is.
const SILENCE: Duration = Duration::from_secs(60);

/// A database that another process has open with [`crate::Options::control`], over its socket.
///
/// ```
/// use terrace::{Control, Database, Options};
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path();
/// let db = Database::open(path, Options::new().memory(16 << 20).control(true))?;
/// db.tree("users")?.put("alice", "Berlin")?;
///
/// // In another process of the same user:
/// let mut control = Control::connect(path)?;
/// assert_eq!(control.stats()?.memory.limit, 16 << 20);
/// println!("{}", control.survey()?);
/// control.checkpoint(|_| ())?;
/// # Ok::<(), terrace::Error>(())
/// ```
#[derive(Debug)]
pub struct Control {
    stream: BufReader<UnixStream>,
}

impl Control {
    /// Connects to the process that has the database in this folder open.
    ///
    /// # Errors
    /// When nobody has it open, or not with [`crate::Options::control`], or its owner is another user.
    pub fn connect(folder: impl AsRef<Path>) -> Result<Control> {
        let folder = folder.as_ref();
        let connected = reach(folder).and_then(|(path, _kept)| UnixStream::connect(path));
        let stream = connected.map_err(|e| match e.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => Error::invalid(format!(
                "no process answers for the database in {}: have it opened there with Options::control(true)",
                folder.display()
            )),
            _ => failed("connecting to", e),
        })?;
        stream
            .set_read_timeout(Some(SILENCE))
            .and_then(|()| stream.set_write_timeout(Some(SILENCE)))
            .map_err(|e| failed("connecting to", e))?;
        Ok(Control {
            stream: BufReader::new(stream),
        })
    }

    /// Which Terrace answers.
    ///
    /// # Errors
    /// When the connection fails; as all that follow.
    pub fn version(&mut self) -> Result<Version> {
        self.ask("version", |_| ())
    }

    /// [`crate::Database::stats`] there.
    ///
    /// # Errors
    /// As [`Control::version`].
    pub fn stats(&mut self) -> Result<Stats> {
        self.ask("stat", |_| ())
    }

    /// [`crate::Database::survey`] there.
    ///
    /// # Errors
    /// As there, and those of the connection.
    pub fn survey(&mut self) -> Result<Stats> {
        self.ask("survey", |_| ())
    }

    /// [`crate::Database::checkpoint`] there; `progress` hears how far it is, about.
    ///
    /// # Errors
    /// As there, and those of the connection. Once it has begun it goes on, whatever becomes of this
    /// side.
    pub fn checkpoint(&mut self, progress: impl FnMut(Progress)) -> Result<CheckpointInfo> {
        self.ask("checkpoint", progress)
    }

    /// [`crate::Database::verify_with`] there. All other calls of that process wait until it is done.
    ///
    /// # Errors
    /// As [`Control::checkpoint`].
    pub fn verify(&mut self, progress: impl FnMut(Progress)) -> Result<VerifyReport> {
        self.ask("verify", progress)
    }

    /// [`crate::Database::backup`] there, to the set in this folder: its whole path. `rate` is in bytes a
    /// second, or none for as fast as it goes; `mark` is what the point is called.
    ///
    /// # Errors
    /// As there, and those of the connection. Once it has begun it goes on, whatever becomes of this
    /// side.
    #[cfg(feature = "backup")]
    pub fn backup(
        &mut self,
        set: impl AsRef<Path>,
        full: bool,
        rate: Option<u64>,
        mark: Option<&str>,
        progress: impl FnMut(Progress),
    ) -> Result<crate::BackupReport> {
        let mut request = Request::of("backup");
        request.name = mark.map(str::to_owned);
        request.backup = Some(crate::control::BackupRequest {
            set: set.as_ref().to_owned(),
            full,
            rate,
        });
        self.request(&request, progress)
    }

    /// [`crate::Database::follow`] there, to the set in this folder (its whole path), until the database is
    /// closed.
    ///
    /// # Errors
    /// As there, and those of the connection.
    #[cfg(feature = "backup")]
    pub fn follow(&mut self, set: impl AsRef<Path>) -> Result<crate::FollowStatus> {
        let mut request = Request::of("follow");
        request.backup = Some(crate::control::BackupRequest {
            set: set.as_ref().to_owned(),
            full: false,
            rate: None,
        });
        self.request(&request, |_| ())
    }

    /// [`crate::Database::mark`] there.
    ///
    /// # Errors
    /// As there, and those of the connection.
    pub fn mark(&mut self, name: &str) -> Result<crate::Mark> {
        let mut request = Request::of("mark");
        request.name = Some(name.to_owned());
        self.request(&request, |_| ())
    }

    /// [`crate::Database::compact`] there, as fast as it goes, until pages are so full.
    ///
    /// # Errors
    /// As there, and those of the connection. Once it has begun it goes on, whatever becomes of this
    /// side.
    pub fn compact(
        &mut self,
        fill: f64,
        progress: impl FnMut(Progress),
    ) -> Result<crate::CompactReport> {
        let mut request = Request::of("compact");
        request.fill = Some(fill);
        self.request(&request, progress)
    }

    fn ask<T: DeserializeOwned>(
        &mut self,
        command: &str,
        progress: impl FnMut(Progress),
    ) -> Result<T> {
        self.request(&Request::of(command), progress)
    }

    fn request<T: DeserializeOwned>(
        &mut self,
        request: &Request,
        mut progress: impl FnMut(Progress),
    ) -> Result<T> {
        let mut line = serde_json::to_vec(request).map_err(not_understood)?;
        line.push(b'\n');
        let sent = self.stream.get_mut().write_all(&line);
        // Who refuses says why before the end comes.
        let unsent = sent.err();
        loop {
            line.clear();
            let mut bounded = (&mut self.stream).take(MAX_ANSWER_BYTES as u64);
            bounded
                .read_until(b'\n', &mut line)
                .map_err(|e| failed("reading from", e))?;
            if line.last() != Some(&b'\n') {
                return Err(match unsent {
                    Some(e) => failed("writing to", e),
                    None => failed("reading from", ErrorKind::UnexpectedEof.into()),
                });
            }
            match serde_json::from_slice(&line).map_err(not_understood)? {
                Answer::Progress(at) => at.into_iter().for_each(&mut progress),
                Answer::Ok(value) => return Ok(value),
                Answer::Error(refusal) => {
                    return Err(Error::invalid(format!(
                        "the process that has the database open refuses: {}",
                        refusal.text
                    )));
                }
            }
        }
    }
}

impl Request {
    fn of(command: &str) -> Request {
        Request {
            command: command.to_owned(),
            #[cfg(feature = "backup")]
            backup: None,
            name: None,
            fill: None,
        }
    }
}

fn failed(op: &'static str, error: std::io::Error) -> Error {
    Error::io(op, SOCKET, error)
}

fn not_understood(error: serde_json::Error) -> Error {
    Error::invalid(format!(
        "the process that has the database open speaks otherwise ({error}): use the same version of Terrace on both sides"
    ))
}
