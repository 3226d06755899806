//! What an experiment is: its name, what the paper found, what is run for it, and what has to come out.
//!
//! Invariant: names are unique, and whatever is said to hold is computed from what was measured.

use serde_json::Value;

/// One figure or table of a paper.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// `paper/figure`.
    pub name: &'static str,
    /// What it shows.
    pub shows: &'static str,
    /// What the paper found.
    pub paper: &'static str,
    /// What is run here.
    pub how: How,
    /// What has to come out for it to count as reproduced; all of them.
    pub holds: Vec<Claim>,
}

/// What is run for an experiment.
#[derive(Clone, Debug)]
pub enum How {
    /// Runs of `terrace bench`, each with a label.
    Engine(Vec<Part>),
    /// A command of `mem-bench paper`.
    Maps(&'static str),
    /// A figure of `place-bench`.
    Places(&'static str),
    /// Runs of `terrace bench --structure pm` over this work.
    Persistent(&'static str),
    /// A single command that prints what there is to see.
    Prints(&'static [&'static str]),
    /// Nothing, for this reason.
    Missing(&'static str),
}

/// Least memory of the benchmark with a record cache.
const RECORD_CACHE_BYTES: u64 = 20 << 20;

/// A run of `terrace bench`.
#[derive(Clone, Debug)]
pub struct Part {
    /// What it is called.
    pub label: String,
    /// Memory over the bytes of the data.
    pub memory: f64,
    /// Bytes of a value.
    pub value_bytes: u64,
    /// Further arguments.
    pub args: Vec<String>,
}

impl Part {
    /// A run with so much memory for each byte of data.
    pub fn new(label: impl Into<String>, memory: f64, args: &str) -> Part {
        Part {
            label: label.into(),
            memory,
            value_bytes: 120,
            args: args.split_whitespace().map(Into::into).collect(),
        }
    }

    /// With less memory than this it does not run: a record cache and a structure below need so much. A part that
    /// is too small for it is left out.
    pub fn least_memory(&self) -> u64 {
        match self.args.iter().any(|arg| arg == "--record-cache") {
            true => RECORD_CACHE_BYTES,
            false => 0,
        }
    }

    /// With values of this length.
    pub fn value_bytes(self, value_bytes: u64) -> Part {
        Part {
            value_bytes,
            ..self
        }
    }
}

/// A figure of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Operations a second.
    Operations,
    /// Page reads and writes for each operation.
    Pages,
    /// Bytes written for each byte of the user's.
    Written,
}

impl Metric {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Metric::Operations => "operations a second",
            Metric::Pages => "page reads and writes an operation",
            Metric::Written => "bytes written for each of the user's",
        }
    }

    /// Of a run's report.
    pub fn of(self, report: &Value) -> Option<f64> {
        let number = |name: &str| report.get(name).and_then(Value::as_f64);
        match self {
            Metric::Operations => number("ops_per_second"),
            Metric::Pages => Some(number("page_reads_per_op")? + number("page_writes_per_op")?),
            Metric::Written => number("disk_bytes_written_per_user_byte"),
        }
    }
}

/// A ratio of two runs that has to come out.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Which figure.
    pub metric: Metric,
    /// The label of the run above the line.
    pub of: String,
    /// The label of the run below it.
    pub over: String,
    /// The least that it may be.
    pub least: f64,
    /// The most that it may be.
    pub most: f64,
}

/// Whether a claim holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It does; the ratio.
    Holds(f64),
    /// It does not.
    Fails(f64),
    /// It cannot be told: a run is missing.
    Unknown,
}

impl Claim {
    /// `of` is at least so many times `over`.
    pub fn at_least(metric: Metric, of: &str, over: &str, least: f64) -> Claim {
        Claim {
            metric,
            of: of.into(),
            over: over.into(),
            least,
            most: f64::INFINITY,
        }
    }

    /// `of` is at most so many times `over`.
    pub fn at_most(metric: Metric, of: &str, over: &str, most: f64) -> Claim {
        Claim {
            metric,
            of: of.into(),
            over: over.into(),
            least: 0.0,
            most,
        }
    }

    /// In words.
    pub fn text(&self) -> String {
        let bound = match self.most.is_finite() {
            true => format!("at most {}", self.most),
            false => format!("at least {}", self.least),
        };
        format!(
            "{}: \"{}\" over \"{}\" {bound}",
            self.metric.name(),
            self.of,
            self.over
        )
    }

    /// What came of it, given the reports by label.
    pub fn check(&self, report: impl Fn(&str) -> Option<Value>) -> Outcome {
        let figure = |label: &str| report(label).and_then(|report| self.metric.of(&report));
        match (figure(&self.of), figure(&self.over)) {
            (Some(of), Some(over)) if over > 0.0 => {
                let ratio = of / over;
                match (self.least..=self.most).contains(&ratio) {
                    true => Outcome::Holds(ratio),
                    false => Outcome::Fails(ratio),
                }
            }
            _ => Outcome::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_claim_is_computed_from_what_was_measured() {
        let reports = |label: &str| match label {
            "two" => Some(
                json!({"ops_per_second": 300.0, "page_reads_per_op": 0.1, "page_writes_per_op": 0.1}),
            ),
            "one" => Some(
                json!({"ops_per_second": 100.0, "page_reads_per_op": 0.5, "page_writes_per_op": 0.5}),
            ),
            _ => None,
        };
        let claim = Claim::at_least(Metric::Operations, "two", "one", 2.5);
        assert_eq!(claim.check(reports), Outcome::Holds(3.0));
        let claim = Claim::at_least(Metric::Operations, "two", "one", 3.5);
        assert_eq!(claim.check(reports), Outcome::Fails(3.0));
        let claim = Claim::at_most(Metric::Pages, "two", "one", 0.3);
        assert_eq!(claim.check(reports), Outcome::Holds(0.2));
        assert_eq!(
            Claim::at_most(Metric::Pages, "two", "none", 0.3).check(reports),
            Outcome::Unknown
        );
        assert_eq!(
            Claim::at_most(Metric::Written, "two", "one", 0.3).check(reports),
            Outcome::Unknown
        );
    }
}
