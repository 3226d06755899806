//! What is watched: a database of this process, or of another one.

use std::path::{Path, PathBuf};

use terrace::{Control, Database, Result, Stats};

/// A database that is watched.
#[derive(Debug)]
pub enum Watched {
    /// One of this process. It stays open as long as it is watched.
    Own(Database),
    /// One that another process has open with [`terrace::Options::control`]: its folder, and the connection,
    /// which is made anew when it was lost.
    Other(PathBuf, Option<Control>),
}

impl Watched {
    /// One that another process has open.
    ///
    /// # Errors
    /// When nobody answers there.
    pub fn other(folder: impl Into<PathBuf>) -> Result<Watched> {
        let folder = folder.into();
        let mut control = Control::connect(&folder)?;
        control.version()?;
        Ok(Watched::Other(folder, Some(control)))
    }

    /// The same once more; over a connection of its own.
    pub(crate) fn again(&self) -> Watched {
        match self {
            Watched::Own(db) => Watched::Own(db.clone()),
            Watched::Other(folder, _) => Watched::Other(folder.clone(), None),
        }
    }

    /// The figures of a database that is open and answers; reads nothing.
    ///
    /// # Errors
    /// When it is closed, or has to be opened again after a failure, or the other process does not answer.
    pub fn check(&mut self) -> Result<Stats> {
        if let Watched::Own(db) = self {
            db.sequence()?;
        }
        self.stats()
    }

    /// The figures.
    ///
    /// # Errors
    /// When the other process does not answer.
    pub fn stats(&mut self) -> Result<Stats> {
        match self {
            Watched::Own(db) => Ok(db.stats()),
            Watched::Other(folder, control) => ask(folder, control, Control::stats),
        }
    }

    /// The figures, with numbers of records, for which some pages are read.
    ///
    /// # Errors
    /// As [`Watched::stats`], and those of [`Database::survey`].
    pub fn survey(&mut self) -> Result<Stats> {
        match self {
            Watched::Own(db) => db.survey(),
            Watched::Other(folder, control) => ask(folder, control, Control::survey),
        }
    }
}

/// Asks, once more over a new connection if the old one was lost.
fn ask(
    folder: &Path,
    kept: &mut Option<Control>,
    question: fn(&mut Control) -> Result<Stats>,
) -> Result<Stats> {
    if let Some(mut control) = kept.take()
        && let Ok(stats) = question(&mut control)
    {
        *kept = Some(control);
        return Ok(stats);
    }
    let mut control = Control::connect(folder)?;
    let stats = question(&mut control)?;
    *kept = Some(control);
    Ok(stats)
}
