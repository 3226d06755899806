//! One page of everything: for each experiment what the paper found, what was measured, what holds.
//!
//! Invariant: every figure on it is read from the stored results.

use std::fmt::Write as _;

use serde_json::Value;
use terrace_papers::html::{self, Bar, bars, escape, short};
use terrace_papers::results::machine;

use crate::experiment::{Experiment, How, Measured, Metric, Outcome, Verdict};
use crate::plan::Plan;

/// What a bar says where the pointer rests on it.
fn note(measured: &Measured) -> String {
    let row = &measured.row;
    let figures = [
        ("/ops_per_second", "operations a second"),
        ("/page_reads_per_op", "page reads each"),
        ("/page_writes_per_op", "page writes each"),
        ("/latency_ns/p999", "ns at the 99.9th percentile"),
        ("/processor_us_per_op", "µs of a processor each"),
    ];
    let told = figures.iter().filter_map(|(place, name)| {
        let figure = row.pointer(place).and_then(Value::as_f64)?;
        Some(format!("{} {name}", short(figure)))
    });
    let told: Vec<String> = told.collect();
    format!("{}: {}", measured.label, told.join(", "))
}

fn picture(of: &Experiment, metric: Metric, nth: usize, all: &[Measured]) -> Option<String> {
    let other = |label: &str| {
        let found = of.published.iter().find(|(of, _)| of == label)?;
        (nth == 0).then_some(found.1)
    };
    let drawn: Vec<Bar> = all
        .iter()
        .filter_map(|measured| {
            Some(Bar {
                label: measured.label.clone(),
                figure: metric.of(&measured.row)?,
                other: other(&measured.label),
                note: note(measured),
            })
        })
        .collect();
    if drawn.is_empty() || drawn.iter().all(|bar| bar.figure == 0.0) {
        return None;
    }
    let heading = match drawn.iter().any(|bar| bar.other.is_some()) {
        true => format!("{}; below in grey the paper's", metric.name()),
        false => metric.name().into(),
    };
    Some(bars(&heading, &drawn))
}

/// A class for how good it is.
fn class(good: Option<bool>) -> &'static str {
    match good {
        Some(true) => "yes",
        Some(false) => "no",
        None => "soft",
    }
}

/// Bars beyond which a picture is folded.
const MANY: usize = 24;

fn section(of: &Experiment, plan: &Plan) -> String {
    let (all, whole) = plan.measured(of);
    let verdict = Verdict::of(of, whole, &all);
    let mut out = format!(
        "<section id=\"{0}\"><h2><a href=\"#{0}\">{0}</a></h2><p>{1}.</p><p class=\"soft\">The paper: {2}.</p><p class=\"{3}\"><b>{4}</b></p>",
        of.name,
        escape(of.shows),
        escape(of.paper),
        class(verdict.word().1),
        escape(&verdict.text())
    );
    if !of.holds.is_empty() && matches!(of.how, How::Missing(_)) {
        return out + "</section>";
    }
    let claims = of.holds.iter().map(|claim| {
        let outcome = claim.check(&all);
        let good = match outcome {
            Outcome::Holds(_) | Outcome::Beyond(_) => Some(true),
            Outcome::Fails(_) => Some(false),
            Outcome::Unknown => None,
        };
        format!(
            "<li class=\"{}\">{}</li>",
            class(good),
            escape(&claim.text(outcome))
        )
    });
    let claims: String = claims.collect();
    if !claims.is_empty() {
        let _ = write!(out, "<ul>{claims}</ul>");
    }
    let drawn = of.draws.iter().enumerate();
    let pictures: String = drawn
        .filter_map(|(nth, metric)| picture(of, *metric, nth, &all))
        .collect();
    match all.len() > MANY && !pictures.is_empty() {
        true => {
            let _ = write!(
                out,
                "<details><summary>{} bars</summary>{pictures}</details>",
                all.len()
            );
        }
        false => out += &pictures,
    }
    let steps = plan.steps(of);
    for stored in steps.iter().filter_map(|step| plan.stored(step)) {
        if !stored.text.is_empty() {
            let text = escape(stored.text.trim());
            let _ = write!(
                out,
                "<details><summary>What it prints</summary><pre>{text}</pre></details>"
            );
        }
    }
    let commands: Vec<String> = steps.iter().map(|step| step.command()).collect();
    if !commands.is_empty() {
        let _ = write!(
            out,
            "<details><summary>{}</summary><pre>{}</pre></details>",
            match commands.len() {
                1 => "The command".into(),
                n => format!("{n} commands"),
            },
            escape(&commands.join("\n"))
        );
    }
    out + "</section>\n"
}

/// The page.
pub fn page(plan: &Plan, all: &[Experiment]) -> String {
    let below = format!(
        "{} of ten million records of 128 bytes, {} s measured in each run, on a device of 20,000 pages of 16 KiB a second; {}. Whether something is reproduced is computed from what was measured, and from what does not depend on the machine or on what else it does: pages, bytes, and the time of processors; operations a second are those that the device and two processors have time for.",
        plan.scale,
        plan.seconds,
        machine()
    );
    let (mut rows, mut sections) = (String::new(), String::new());
    let mut counts: Vec<(&'static str, usize)> = Vec::new();
    for of in all {
        let (measured, whole) = plan.measured(of);
        let (word, good) = Verdict::of(of, whole, &measured).word();
        match counts.iter_mut().find(|(known, _)| *known == word) {
            Some((_, count)) => *count += 1,
            None => counts.push((word, 1)),
        }
        let _ = write!(
            rows,
            "<tr><td><a href=\"#{0}\">{0}</a></td><td>{1}</td><td class=\"{2}\">{word}</td></tr>",
            of.name,
            escape(of.shows),
            class(good)
        );
        sections += &section(of, plan);
    }
    let counts: Vec<String> = counts
        .iter()
        .map(|(word, count)| format!("{count} {word}"))
        .collect();
    let rest = format!(
        "<p><b>{} experiments: {}.</b></p><div class=\"wide\"><table><tr><th>experiment</th><th>what it shows</th><th>verdict</th></tr>{rows}</table></div>\n{sections}",
        all.len(),
        counts.join(", ")
    );
    html::page("The papers' experiments in Terrace", &below, &rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Claim, Part};
    use serde_json::json;
    use terrace_papers::results::{Results, Stored};

    const OPERATIONS: Metric = Metric::At("/ops_per_second", "operations a second");

    #[test]
    fn the_page_says_what_the_results_say() {
        let of = Experiment {
            name: "tiered/fig0",
            shows: "A & b",
            paper: "twice",
            how: How::Engine(vec![Part::new("two", 0.5, ""), Part::new("one", 0.6, "")]),
            holds: vec![
                Claim::ratio(OPERATIONS, "two", "one")
                    .at_least(1.5)
                    .paper(9.0),
            ],
            draws: vec![OPERATIONS],
            published: vec![("two".into(), 777.0)],
            because: None,
        };
        let folder =
            std::env::temp_dir().join(format!("terrace-papers-page-{}", std::process::id()));
        let plan = Plan {
            scale: 0.1,
            seconds: 1.0,
            quick: false,
            results: Results::new(folder.clone()),
            scratch: "scratch".into(),
            programs: "programs".into(),
        };
        let verdict = || {
            let (all, whole) = plan.measured(&of);
            Verdict::of(&of, whole, &all).text()
        };
        assert_eq!(verdict(), "not run yet");
        let steps = plan.steps(&of);
        let keep = |nth: usize, ops: f64| {
            let stored = Stored {
                command: steps[nth].command(),
                took: 1.0,
                rows: vec![json!({"ops_per_second": ops, "page_reads_per_op": 0.125})],
                text: String::new(),
            };
            plan.results.keep(&stored).unwrap();
        };
        keep(0, 4321.0);
        assert_eq!(verdict(), "not run yet");
        keep(1, 1234.0);
        assert_eq!(verdict(), "reproduced");
        // Every figure of the results, the ratio computed from them, the paper's beside it.
        let html = page(&plan, std::slice::from_ref(&of));
        for text in [
            ">4321<",
            ">1234<",
            ">777<",
            "3.50 here",
            "9.00 in the paper",
            "A &amp; b",
        ] {
            assert!(html.contains(text), "{text}: {html}");
        }
        assert!(html.contains("page reads each") && html.contains("1 reproduced"));
        for foreign in ["<script", "http://", "https://", "<link", "@import"] {
            assert!(!html.contains(foreign), "{foreign}");
        }
        keep(0, 1235.0);
        let html = page(&plan, std::slice::from_ref(&of));
        assert!(html.contains("1 not reproduced") && html.contains("1.00 here"));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
