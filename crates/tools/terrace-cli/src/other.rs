//! A database that another process has open: what can be asked of it there.

use anyhow::Result;
use serde_json::Value;
use std::path::Path;
use std::time::Instant;
use terrace::{CheckpointInfo, Control, Progress, Rate};
use terrace_view::Watched;

use crate::args::Open;
use crate::engine::{Db, Verified};

/// A database, wherever it is open.
pub enum Reached {
    /// Here.
    Own(Box<Db>),
    /// In another process that answers.
    Other(Other),
}

/// The other process.
pub struct Other(Control);

impl Reached {
    /// Opens what must be there, or asks whoever has it open; `quiet` if a program reads what comes of it.
    pub fn find(open: &Open, quiet: bool) -> Result<Reached> {
        Reached::or_asked(open, Db::open_existing(open, quiet))
    }

    /// The same for a backup.
    pub fn find_to_back_up(open: &Open, quiet: bool) -> Result<Reached> {
        Reached::or_asked(open, Db::open_to_back_up(open, quiet))
    }

    /// The same for a command that only reads.
    pub fn find_to_read(open: &Open, quiet: bool) -> Result<Reached> {
        Reached::or_asked(open, Db::open_to_read(open, quiet))
    }

    /// What was opened here, or whoever has it open.
    pub fn or_asked(open: &Open, opened: Result<Db>) -> Result<Reached> {
        let refused = match opened {
            Ok(db) => return Ok(Reached::Own(Box::new(db))),
            Err(error) => error,
        };
        match refused.downcast_ref() {
            Some(terrace::Error::Locked { .. }) => match Other::find(&open.db)? {
                Some(other) => Ok(Reached::Other(other)),
                None => Err(refused.context(
                    "a database that is opened with Options::control(true) answers this command while \
                     it is open",
                )),
            },
            _ => Err(refused),
        }
    }
}

impl Other {
    /// The process that has it open, if there is one to ask. Why there is no answer is an error.
    pub fn find(folder: &Path) -> Result<Option<Other>> {
        let mut control = match Control::connect(folder) {
            Ok(control) => control,
            // No process listens there.
            Err(terrace::Error::Invalid { .. }) => return Ok(None),
            Err(error) => return Err(asked(error)),
        };
        control.version().map_err(asked)?;
        Ok(Some(Other(control)))
    }

    /// For whoever watches it.
    pub fn watched(&mut self, folder: &Path) -> Watched {
        // A connection of its own, as this one may be asked for other things.
        Watched::Other(folder.to_path_buf(), None)
    }

    /// Statistics for people.
    pub fn stats_text(&mut self) -> Result<String> {
        Ok(self.0.survey().map_err(asked)?.to_string())
    }

    /// Statistics for programs.
    pub fn stats_json(&mut self) -> Result<Value> {
        Ok(serde_json::to_value(self.0.survey().map_err(asked)?)?)
    }

    /// Checks everything; `progress` hears how far it has come.
    pub fn verify(&mut self, progress: impl FnMut(Progress)) -> Result<Verified> {
        Verified::of(&self.0.verify(progress).map_err(asked)?)
    }

    /// Adds a point to the backup set in a folder.
    pub fn backup(
        &mut self,
        set: &Path,
        full: bool,
        (rate, mark): (Rate, Option<&str>),
        progress: impl FnMut(Progress),
    ) -> Result<terrace::BackupReport> {
        // That process may be in another folder.
        let set = std::path::absolute(set)?;
        let made = self.0.backup(set, full, rate, mark, progress);
        made.map_err(asked)
    }

    /// Has the log copied to a backup set until the database is closed.
    pub fn follow(
        &mut self,
        set: &Path,
        options: &terrace::FollowOptions,
    ) -> Result<terrace::FollowStatus> {
        let set = std::path::absolute(set)?;
        self.0.follow(set, options).map_err(asked)
    }

    /// Ends that.
    pub fn stop_following(&mut self, set: &Path) -> Result<terrace::FollowStatus> {
        let set = std::path::absolute(set)?;
        self.0.stop_following(set).map_err(asked)
    }

    /// All that is followed to.
    pub fn following(&mut self) -> Result<Vec<terrace::FollowStatus>> {
        Ok(self.0.stats().map_err(asked)?.following)
    }

    /// Marks this place in the order of changes.
    pub fn mark(&mut self, name: &str) -> Result<terrace::Mark> {
        self.0.mark(name).map_err(asked)
    }

    /// Every commit, from a place on, until `each` wants no more.
    pub fn changes(
        &mut self,
        from: Option<&str>,
        until_now: bool,
        each: impl FnMut(terrace::CommitLine) -> bool,
    ) -> Result<()> {
        self.0.changes(from, until_now, each).map_err(asked)
    }

    /// Makes pages full and the file short.
    pub fn compact(
        &mut self,
        fill: f64,
        rate: Rate,
        progress: impl FnMut(Progress),
    ) -> Result<terrace::CompactReport> {
        self.0.compact(fill, rate, progress).map_err(asked)
    }

    /// Makes a checkpoint, and says how many seconds it took.
    pub fn checkpoint(&mut self, progress: impl FnMut(Progress)) -> Result<f64> {
        let began = Instant::now();
        let _: CheckpointInfo = self.0.checkpoint(progress).map_err(asked)?;
        Ok(began.elapsed().as_secs_f64())
    }
}

/// The error with where it went wrong, unless it says that itself.
fn asked(error: terrace::Error) -> anyhow::Error {
    let is_said = error.to_string().contains(OTHER);
    let error = anyhow::Error::new(error);
    match is_said {
        true => error,
        false => error.context(format!("cannot ask {OTHER}")),
    }
}

/// As errors of the store call it.
const OTHER: &str = "the process that has the database open";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::told_once;

    #[test]
    fn who_has_it_open_is_said_once() {
        let broken = std::io::Error::from_raw_os_error(32);
        for (error, begins) in [
            (
                terrace::Error::invalid(format!("{OTHER} refuses: it is busy")),
                OTHER,
            ),
            (
                terrace::Error::io("reading from", "control", broken),
                "cannot ask",
            ),
        ] {
            let told = told_once(&asked(error));
            assert!(told.starts_with(begins), "{told}");
            assert_eq!(told.matches(OTHER).count(), 1, "{told}");
        }
    }
}
