//! The two text formats: how a family of metrics, its labels and its numbers are written.
//!
//! Invariants: a family is written once, in one piece, and only if it has a sample. In OpenMetrics the name
//! of a counter's family lacks the `_total` that its samples have, and the text ends with `# EOF`.

use std::fmt::Write;

use crate::Format;

/// Bounds of the buckets of durations, in nanoseconds: three to each power of ten, from a hot read to 100 s. Each family
/// has those that its durations come to.
pub const BOUNDS: [u64; 27] = [
    250,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
    25_000_000_000,
    50_000_000_000,
    100_000_000_000,
];

/// What a metric is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A number that only grows; its name lacks the `_total`.
    Counter,
    /// A number that comes and goes.
    Gauge,
    /// Facts in labels; its name lacks the `_info`.
    Info,
    /// Counts of durations.
    Histogram,
}

/// A number.
#[derive(Clone, Copy)]
pub enum Number {
    /// Exactly.
    Whole(u64),
    /// A measured one.
    Real(f64),
}

impl From<u64> for Number {
    fn from(number: u64) -> Number {
        Number::Whole(number)
    }
}

impl From<f64> for Number {
    fn from(number: f64) -> Number {
        Number::Real(number)
    }
}

impl From<bool> for Number {
    fn from(is: bool) -> Number {
        Number::Whole(is.into())
    }
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Number::Whole(number) => number.fmt(f),
            Number::Real(number) => number.fmt(f),
        }
    }
}

/// Labels: names with values; those without a value are left out.
pub type Labels<'l> = &'l [(&'l str, &'l str)];

/// Nanoseconds of a second.
pub const SECOND: f64 = 1e9;

/// The text so far.
pub struct Text {
    format: Format,
    out: String,
    /// The family that is being written.
    name: &'static str,
    kind: Kind,
    help: &'static str,
    begun: bool,
}

impl Text {
    /// Nothing yet.
    pub fn new(format: Format) -> Text {
        Text {
            format,
            out: String::new(),
            name: "",
            kind: Kind::Gauge,
            help: "",
            begun: false,
        }
    }

    /// Begins a family.
    pub fn family(&mut self, name: &'static str, kind: Kind, help: &'static str) -> &mut Text {
        (self.name, self.kind, self.help, self.begun) = (name, kind, help, false);
        self
    }

    /// A sample of the family.
    pub fn sample(&mut self, labels: Labels<'_>, number: impl Into<Number>) -> &mut Text {
        self.begin();
        let suffix = match self.kind {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            Kind::Gauge | Kind::Histogram => "",
        };
        self.line(suffix, labels, None, number.into());
        self
    }

    /// A histogram: for each bound how many were at most that, then how many there are, and their sum.
    pub fn histogram(
        &mut self,
        labels: Labels<'_>,
        buckets: &[(f64, u64)],
        count: u64,
        sum: f64,
    ) -> &mut Text {
        self.begin();
        for (bound, counted) in buckets {
            let bound = bound.to_string();
            self.line("_bucket", labels, Some(&bound), (*counted).into());
        }
        self.line("_bucket", labels, Some("+Inf"), count.into());
        self.line("_count", labels, None, count.into());
        self.line("_sum", labels, None, sum.into());
        self
    }

    /// Begins a family of the program, not of the engine, whose name has no other part.
    pub fn foreign_family(&mut self, name: &str, counts: bool, help: &str) {
        let suffix = match (self.format, counts) {
            (Format::Prometheus, true) => "_total",
            _ => "",
        };
        let kind = if counts { "counter" } else { "gauge" };
        let help = help.replace(['\\', '\n'], " ");
        self.put(format_args!("# HELP {name}{suffix} {help}\n"));
        self.put(format_args!("# TYPE {name}{suffix} {kind}\n"));
    }

    /// A sample of such a family.
    pub fn foreign_sample(&mut self, name: &str, counts: bool, labels: Labels<'_>, number: f64) {
        let suffix = if counts { "_total" } else { "" };
        self.put(format_args!("{name}{suffix}"));
        self.labels(labels, None);
        self.put(format_args!(" {number}\n"));
    }

    /// The whole text.
    pub fn end(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.out.push_str("# EOF\n");
        }
        self.out
    }

    fn begin(&mut self) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        let (suffix, kind) = match (self.format, self.kind) {
            (Format::Prometheus, Kind::Counter) => ("_total", "counter"),
            (Format::Prometheus, Kind::Info) => ("_info", "gauge"),
            (_, Kind::Counter) => ("", "counter"),
            (_, Kind::Info) => ("", "info"),
            (_, Kind::Gauge) => ("", "gauge"),
            (_, Kind::Histogram) => ("", "histogram"),
        };
        let (name, help) = (self.name, self.help);
        self.put(format_args!("# HELP terrace_{name}{suffix} {help}\n"));
        self.put(format_args!("# TYPE terrace_{name}{suffix} {kind}\n"));
        if self.format == Format::OpenMetrics
            && let Some(unit) = ["bytes", "seconds", "ratio"]
                .iter()
                .find(|unit| name.ends_with(*unit))
        {
            self.put(format_args!("# UNIT terrace_{name} {unit}\n"));
        }
    }

    fn line(&mut self, suffix: &str, labels: Labels<'_>, bound: Option<&str>, number: Number) {
        let name = self.name;
        self.put(format_args!("terrace_{name}{suffix}"));
        self.labels(labels, bound);
        self.put(format_args!(" {number}\n"));
    }

    fn labels(&mut self, labels: Labels<'_>, bound: Option<&str>) {
        let mut before = '{';
        let bound = bound.map(|bound| ("le", bound));
        let said = labels.iter().copied().chain(bound);
        for (label, value) in said.filter(|(_, value)| !value.is_empty()) {
            self.out.push(before);
            self.put(format_args!("{label}=\"{}\"", Escaped(value)));
            before = ',';
        }
        if before == ',' {
            self.out.push('}');
        }
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        // A string takes everything.
        let _ = self.out.write_fmt(text);
    }
}

/// Bounds in seconds, and how many durations were at most that.
pub fn cumulated(bounds: &[u64], fine: &[(u64, u64)]) -> Vec<(f64, u64)> {
    let counted = |bound: u64| fine.iter().filter(|b| b.0 <= bound).map(|b| b.1).sum();
    let each = bounds.iter();
    each.map(|&bound| (bound as f64 / SECOND, counted(bound)))
        .collect()
}

/// The value of a label, in quotes.
struct Escaped<'v>(&'v str);

impl std::fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for c in self.0.chars() {
            match c {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_left_out_when_empty() {
        let mut text = Text::new(Format::OpenMetrics);
        text.family("x_bytes", Kind::Counter, "Help.")
            .sample(&[("a", "q\"\\\nü"), ("b", ""), ("c", "d")], 7)
            .sample(&[("b", "")], 0.5);
        assert_eq!(
            text.end(),
            "# HELP terrace_x_bytes Help.\n# TYPE terrace_x_bytes counter\n# UNIT terrace_x_bytes bytes\n\
             terrace_x_bytes_total{a=\"q\\\"\\\\\\nü\",c=\"d\"} 7\nterrace_x_bytes_total 0.5\n# EOF\n"
        );
    }

    #[test]
    fn a_family_without_samples_is_not_there() {
        let mut text = Text::new(Format::Prometheus);
        text.family("x", Kind::Gauge, "Help.");
        text.family("y", Kind::Info, "Help.")
            .sample(&[("v", "1")], 1);
        assert_eq!(
            text.end(),
            "# HELP terrace_y_info Help.\n# TYPE terrace_y_info gauge\nterrace_y_info{v=\"1\"} 1\n"
        );
    }
}
