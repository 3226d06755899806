//! Figures of the program that has the database open, told with those of the database.
//!
//! Invariants: the program's closure runs with no lock of the database held.

use std::sync::{Arc, Mutex, PoisonError};

/// A figure of a program. Metrics have it under its own name; `terrace top` and the page show those with a word.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct ProgramFigure {
    /// Its name among metrics, as Prometheus takes names, without `_total`.
    pub name: String,
    /// What it is, in a sentence.
    pub help: String,
    /// Whether it only grows, so that its rate is of interest.
    pub counts: bool,
    /// Labels: names with values. Figures of one name stand one behind the other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<(String, String)>,
    /// How much.
    pub value: f64,
    /// The word under which people are shown it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub word: Option<String>,
}

type Told = Arc<dyn Fn() -> Vec<ProgramFigure> + Send + Sync>;

/// Where a program's figures come from.
#[derive(Default)]
pub(crate) struct Program(Mutex<Option<Told>>);

impl Program {
    /// Tells figures of the program with those of the database from now on.
    pub(crate) fn show(&self, figures: Told) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = told.replace(figures);
        drop(told);
        // What the program gave may do anything when it goes.
        drop(before);
    }

    /// The figures of now.
    pub fn figures(&self) -> Vec<ProgramFigure> {
        let told = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        told.map_or_else(Vec::new, |told| told())
    }
}
