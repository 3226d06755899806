//! What an experiment is: its name, what the paper found, what is run for it, and what has to come out.
//!
//! Invariant: names are unique, and whatever is said to hold is computed from what was measured.

use serde_json::Value;
use terrace_papers::html::short;

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
    /// What is drawn.
    pub draws: Vec<Metric>,
    /// The paper's own figures, by labels, of the first that is drawn.
    pub published: Vec<(String, f64)>,
    /// If it is not reproduced, why, as far as that is known.
    pub because: Option<&'static str>,
}

impl Experiment {
    /// With figures of the paper's to be drawn.
    pub fn published(self, published: Vec<(String, f64)>) -> Experiment {
        Experiment { published, ..self }
    }

    /// With other things drawn.
    pub fn draws(self, draws: &[Metric]) -> Experiment {
        let draws = draws.to_vec();
        Experiment { draws, ..self }
    }

    /// With what is known of why it is not reproduced.
    pub fn because(self, because: &'static str) -> Experiment {
        let because = Some(because);
        Experiment { because, ..self }
    }
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
    /// A command of `oltp-bench`.
    Transactions(&'static str),
    /// Runs of `terrace bench --structure pm` over this work.
    Persistent(&'static str),
    /// A single command that prints what there is to see, with nothing to be held to.
    Prints(&'static [&'static str]),
    /// Nothing, for this reason.
    Missing(&'static str),
}

/// A run of `terrace bench`.
#[derive(Clone, Debug)]
pub struct Part {
    /// What it is called.
    pub label: String,
    /// Memory over the bytes of the data.
    pub memory: f64,
    /// Bytes of a value.
    pub value_bytes: u64,
    /// How many times as long it is measured as others.
    pub times: f64,
    /// Whether it is left out of a quick run.
    pub slow: bool,
    /// Further arguments.
    pub args: Vec<String>,
}

impl Part {
    /// A run with this much memory for each byte of data.
    pub fn new(label: impl Into<String>, memory: f64, args: &str) -> Part {
        Part {
            label: label.into(),
            memory,
            value_bytes: 120,
            times: 1.0,
            slow: false,
            args: args.split_whitespace().map(Into::into).collect(),
        }
    }

    /// With values of this length.
    pub fn value_bytes(self, value_bytes: u64) -> Part {
        Part {
            value_bytes,
            ..self
        }
    }

    /// Left out of a quick run, or not.
    pub fn slow(self, slow: bool) -> Part {
        Part { slow, ..self }
    }

    /// Measured this many times as long.
    pub fn times(self, times: f64) -> Part {
        Part { times, ..self }
    }
}

/// A run that was made: the label of a part, or what a row is of, and what it says.
#[derive(Clone, Debug)]
pub struct Measured {
    /// What it is of.
    pub label: String,
    /// The object.
    pub row: Value,
}

/// The row of a label.
pub fn row<'m>(all: &'m [Measured], label: &str) -> Option<&'m Value> {
    let found = all.iter().find(|measured| measured.label == label)?;
    Some(&found.row)
}

/// A figure of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// What stands at a place of the object, and how it is called.
    At(&'static str, &'static str),
    /// Page reads and writes for each operation.
    Pages,
    /// Bytes of these for each byte of a record.
    Amplification,
    /// Operations a second that the device and two processors have time for: reckoned from pages and the time of
    /// processors, so that it says the same whatever else the machine does.
    Allowed,
}

/// Pages of 16 KiB a second of the device that all are measured on.
pub const DEVICE_PAGES: f64 = 20_000.0;
/// Processors of the machine that is reckoned with.
const PROCESSORS: f64 = 2.0;

impl Metric {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Metric::At(_, name) => name,
            Metric::Pages => "page reads and writes for each operation",
            Metric::Amplification => "bytes read and written for each byte of the records",
            Metric::Allowed => "operations a second that the device and two processors allow",
        }
    }

    /// Of a row.
    pub fn of(self, row: &Value) -> Option<f64> {
        let number = |name: &str| row.get(name).and_then(Value::as_f64);
        match self {
            Metric::At(place, _) => row.pointer(place).and_then(Value::as_f64),
            Metric::Pages => Some(number("page_reads_per_op")? + number("page_writes_per_op")?),
            Metric::Amplification => {
                let record = number("key_bytes")? + number("value_bytes")?;
                Some(Metric::Pages.of(row)? * number("page_bytes")? / record)
            }
            Metric::Allowed => {
                let device = Metric::Pages.of(row)? / DEVICE_PAGES;
                let processors = number("processor_us_per_op")? / 1e6 / PROCESSORS;
                let longest = device.max(processors);
                (longest > 0.0).then(|| 1.0 / longest)
            }
        }
    }
}

/// A figure, or a ratio of the figures of two runs, that has to come out.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Which figure.
    pub metric: Metric,
    /// The label of the run above the line.
    pub of: String,
    /// The label of the run below it, if there is one.
    pub over: Option<String>,
    /// Which figure of that, if it is another one.
    below: Option<Metric>,
    /// The least that it may be.
    least: f64,
    /// The most that it may be.
    most: f64,
    /// What the paper has.
    paper: Option<f64>,
}

/// Whether a claim holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// It does; the ratio.
    Holds(f64),
    /// It does, and is better than the paper's.
    Beyond(f64),
    /// It does not.
    Fails(f64),
    /// It cannot be told: a run is missing.
    Unknown,
}

impl Claim {
    /// The ratio of two runs.
    pub fn ratio(metric: Metric, of: impl Into<String>, over: impl Into<String>) -> Claim {
        Claim {
            over: Some(over.into()),
            ..Claim::figure(metric, of)
        }
    }

    /// The figure of a run.
    pub fn figure(metric: Metric, of: impl Into<String>) -> Claim {
        Claim {
            metric,
            of: of.into(),
            over: None,
            below: None,
            least: f64::NEG_INFINITY,
            most: f64::INFINITY,
            paper: None,
        }
    }

    /// Below the line stands another figure.
    pub fn below(self, metric: Metric) -> Claim {
        let below = Some(metric);
        Claim { below, ..self }
    }

    /// It is at least this.
    pub fn at_least(self, least: f64) -> Claim {
        Claim { least, ..self }
    }

    /// It is at most this.
    pub fn at_most(self, most: f64) -> Claim {
        Claim { most, ..self }
    }

    /// In the paper it is this.
    pub fn paper(self, paper: f64) -> Claim {
        let paper = Some(paper);
        Claim { paper, ..self }
    }

    /// What it is of, in words.
    fn subject(&self) -> String {
        let name = self.metric.name();
        match &self.over {
            Some(over) if self.below.is_some() => {
                let below = self.below.map_or("", Metric::name);
                format!(
                    "{name}, \u{201c}{}\u{201d} over {below}, \u{201c}{over}\u{201d}",
                    self.of
                )
            }
            Some(over) => format!(
                "{name}, \u{201c}{}\u{201d} over \u{201c}{over}\u{201d}",
                self.of
            ),
            None => format!("{name}, \u{201c}{}\u{201d}", self.of),
        }
    }

    fn bound(&self) -> String {
        match (self.least.is_finite(), self.most.is_finite()) {
            (true, true) => format!("from {} to {}", short(self.least), short(self.most)),
            (_, true) => format!("at most {}", short(self.most)),
            _ => format!("at least {}", short(self.least)),
        }
    }

    /// In words, with what came of it.
    pub fn text(&self, outcome: Outcome) -> String {
        let here = match outcome {
            Outcome::Holds(ratio) | Outcome::Beyond(ratio) | Outcome::Fails(ratio) => {
                format!("{} here", short(ratio))
            }
            Outcome::Unknown => "not measured".into(),
        };
        let paper = self.paper.map_or(String::new(), |paper| {
            format!(", {} in the paper", short(paper))
        });
        format!("{}: {here}{paper}; to be {}", self.subject(), self.bound())
    }

    /// What came of it.
    pub fn check(&self, all: &[Measured]) -> Outcome {
        let figure = |metric: Metric, label: &str| row(all, label).and_then(|row| metric.of(row));
        let (above, below) = (self.metric, self.below.unwrap_or(self.metric));
        let value = match &self.over {
            None => figure(above, &self.of),
            Some(over) => match (figure(above, &self.of), figure(below, over)) {
                (Some(of), Some(over)) if over > 0.0 => Some(of / over),
                // Nothing over nothing says nothing; something over nothing is as much as can be.
                (Some(of), Some(_)) if of > 0.0 => Some(f64::INFINITY),
                _ => None,
            },
        };
        let Some(value) = value else {
            return Outcome::Unknown;
        };
        if !(self.least..=self.most).contains(&value) {
            return Outcome::Fails(value);
        }
        let better = |paper: f64| match self.most.is_finite() {
            true => value < paper,
            false => value > paper,
        };
        match self.paper.is_some_and(better) {
            true => Outcome::Beyond(value),
            false => Outcome::Holds(value),
        }
    }
}

/// What is said of an experiment, computed from its claims.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// All that has to come out does, and something is better than in the paper.
    Beyond,
    /// All that has to come out does.
    Reproduced,
    /// Something does not, or it cannot be run; why.
    NotReproduced(String),
    /// It was run, and there is nothing that has to come out.
    Shown,
    /// It was not run, or not all of it.
    NotRun,
}

impl Verdict {
    /// Of an experiment and what was measured of it.
    pub fn of(of: &Experiment, whole: bool, all: &[Measured]) -> Verdict {
        if let How::Missing(why) = of.how {
            return Verdict::NotReproduced(why.into());
        }
        let outcomes: Vec<Outcome> = of.holds.iter().map(|claim| claim.check(all)).collect();
        let fails: Vec<String> = of
            .holds
            .iter()
            .zip(&outcomes)
            .filter(|(_, outcome)| matches!(outcome, Outcome::Fails(_)))
            .map(|(claim, outcome)| claim.text(*outcome))
            .collect();
        if !fails.is_empty() {
            let known = of
                .because
                .map_or(String::new(), |because| format!(" ({because})"));
            return Verdict::NotReproduced(fails.join("; ") + &known);
        }
        if !whole || outcomes.contains(&Outcome::Unknown) {
            return Verdict::NotRun;
        }
        match outcomes.iter().any(|o| matches!(o, Outcome::Beyond(_))) {
            _ if outcomes.is_empty() => Verdict::Shown,
            true => Verdict::Beyond,
            false => Verdict::Reproduced,
        }
    }

    /// In a word, and whether that is good; nothing if it is neither.
    pub fn word(&self) -> (&'static str, Option<bool>) {
        match self {
            Verdict::Beyond => ("beyond", Some(true)),
            Verdict::Reproduced => ("reproduced", Some(true)),
            Verdict::NotReproduced(_) => ("not reproduced", Some(false)),
            Verdict::Shown => ("shown", None),
            Verdict::NotRun => ("not run yet", None),
        }
    }

    /// In a sentence.
    pub fn text(&self) -> String {
        match self {
            Verdict::NotReproduced(why) => format!("not reproduced, because {why}"),
            other => other.word().0.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn measured() -> Vec<Measured> {
        let one = |label: &str, row| Measured {
            label: label.into(),
            row,
        };
        vec![
            one(
                "two",
                json!({"ops_per_second": 300.0, "page_reads_per_op": 0.1, "page_writes_per_op": 0.1,
                       "page_bytes": 16384, "key_bytes": 8, "value_bytes": 120}),
            ),
            one(
                "one",
                json!({"ops_per_second": 100.0, "page_reads_per_op": 0.5, "page_writes_per_op": 0.5,
                       "more": {"deep": 0.0}}),
            ),
        ]
    }

    const OPERATIONS: Metric = Metric::At("/ops_per_second", "operations a second");

    #[test]
    fn what_is_allowed_is_bound_by_the_device_or_by_processors() {
        let row = |pages: f64, us: f64| json!({"page_reads_per_op": pages, "page_writes_per_op": pages, "processor_us_per_op": us});
        let allowed = |pages, us| Metric::Allowed.of(&row(pages, us)).map(f64::round);
        assert_eq!(allowed(0.5, 5.0), Some(20_000.0));
        assert_eq!(allowed(0.0, 5.0), Some(400_000.0));
        assert_eq!(allowed(0.0, 0.0), None);
    }

    #[test]
    fn a_claim_is_computed_from_what_was_measured() {
        let all = measured();
        let speed = Claim::ratio(OPERATIONS, "two", "one");
        assert_eq!(speed.clone().at_least(2.5).check(&all), Outcome::Holds(3.0));
        assert_eq!(speed.clone().at_least(3.5).check(&all), Outcome::Fails(3.0));
        let paper = |paper| speed.clone().at_least(2.0).paper(paper).check(&all);
        assert_eq!(paper(2.9), Outcome::Beyond(3.0));
        assert_eq!(paper(3.1), Outcome::Holds(3.0));
        let pages = Claim::ratio(Metric::Pages, "two", "one").at_most(0.3);
        assert_eq!(pages.clone().check(&all), Outcome::Holds(0.2));
        assert_eq!(pages.paper(0.25).check(&all), Outcome::Beyond(0.2));
        let missing = Claim::ratio(Metric::Pages, "two", "none").at_most(0.3);
        assert_eq!(missing.check(&all), Outcome::Unknown);
        let bytes = Claim::figure(Metric::Amplification, "two").at_most(26.0);
        assert_eq!(bytes.check(&all), Outcome::Holds(0.2 * 16384.0 / 128.0));
        assert_eq!(
            Claim::figure(Metric::Amplification, "one").check(&all),
            Outcome::Unknown
        );
        let deep = Metric::At("/more/deep", "x");
        assert_eq!(
            Claim::figure(deep, "one").at_most(0.0).check(&all),
            Outcome::Holds(0.0)
        );
        assert_eq!(
            Claim::ratio(deep, "one", "one").at_most(1.0).check(&all),
            Outcome::Unknown
        );
    }

    #[test]
    fn a_verdict_says_what_failed_and_by_how_much() {
        let of = |holds: Vec<Claim>| Experiment {
            name: "x/fig1",
            shows: "",
            paper: "",
            how: How::Maps("fig1"),
            holds,
            draws: Vec::new(),
            published: Vec::new(),
            because: Some("too small"),
        };
        let speed = Claim::ratio(OPERATIONS, "two", "one");
        let verdict = |claim: Claim| Verdict::of(&of(vec![claim]), true, &measured());
        assert_eq!(verdict(speed.clone().at_least(2.0)), Verdict::Reproduced);
        assert_eq!(
            verdict(speed.clone().at_least(2.0).paper(2.5)),
            Verdict::Beyond
        );
        let text = verdict(speed.clone().at_least(4.0).paper(9.8)).text();
        assert_eq!(
            text,
            "not reproduced, because operations a second, \u{201c}two\u{201d} over \u{201c}one\u{201d}: 3.00 here, 9.80 in the paper; to be at least 4.00 (too small)"
        );
        assert_eq!(
            verdict(Claim::figure(OPERATIONS, "none").at_least(1.0)),
            Verdict::NotRun
        );
        let half = Verdict::of(&of(vec![speed.at_least(2.0)]), false, &measured());
        assert_eq!(half, Verdict::NotRun);
        assert_eq!(Verdict::of(&of(vec![]), true, &measured()), Verdict::Shown);
    }
}
