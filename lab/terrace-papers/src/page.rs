//! One page of everything: for each experiment what the paper found, what was measured, what holds.
//!
//! Invariant: every figure on it is read from the stored results; the page needs no network and no scripts.

use std::fmt::Write as _;

use crate::experiment::{Experiment, How, Metric, Outcome};
use crate::run::{Plan, Stored};

const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1c1c1e; --paper: #fff; --soft: #667; --bar: #2f6fb0; --rule: #ccd; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8ea; --paper: #17181b; --soft: #99a; --bar: #6aa6e0; --rule: #334; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h2 { margin-top: 2.5rem; border-top: 1px solid var(--rule); padding-top: 1rem; font-size: 1.1rem; }
code, pre { font: 12px/1.4 ui-monospace, monospace; }
pre { overflow-x: auto; } table { border-collapse: collapse; } td, th { padding: .15rem .6rem; text-align: left; }
.soft { color: var(--soft); } .yes { color: #2a8a3e; } .no { color: #c0392b; }
svg text { fill: var(--ink); font: 12px system-ui, sans-serif; } svg rect { fill: var(--bar); }
";

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// A figure in few digits.
fn short(figure: f64) -> String {
    match figure.abs() {
        x if x >= 100.0 => format!("{figure:.0}"),
        x if x >= 10.0 => format!("{figure:.1}"),
        _ => format!("{figure:.3}"),
    }
}

/// Bars, one for each part; the value is written beside each.
fn bars(parts: &[(String, f64)], metric: Metric) -> String {
    const WIDTH: f64 = 760.0;
    const LABEL: f64 = 240.0;
    const ROW: f64 = 20.0;
    let most = parts
        .iter()
        .map(|(_, figure)| *figure)
        .fold(f64::MIN_POSITIVE, f64::max);
    let height = ROW * (parts.len() as f64 + 1.0);
    let mut out = format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\"><text x=\"{LABEL}\" y=\"14\">{}</text>",
        metric.name(),
        metric.name()
    );
    for (i, (label, figure)) in parts.iter().enumerate() {
        let y = ROW * (i as f64 + 1.0);
        let length = (WIDTH - LABEL - 90.0) * figure / most;
        let _ = write!(
            out,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text><rect x=\"{LABEL}\" y=\"{}\" width=\"{length:.1}\" height=\"14\"/><text x=\"{:.1}\" y=\"{}\">{}</text>",
            LABEL - 6.0,
            y + 14.0,
            escape(label),
            y + 3.0,
            LABEL + length + 5.0,
            y + 14.0,
            short(*figure)
        );
    }
    out + "</svg>"
}

/// What is said of an experiment in a word, and whether it was run.
pub fn verdict(of: &Experiment, stored: &[Stored]) -> String {
    if let How::Missing(why) = &of.how {
        return format!("not reproduced, because {why}");
    }
    if stored.is_empty() {
        return "not run yet".into();
    }
    if of.holds.is_empty() {
        return "measured; what it is held to, and what came of it, is in docs/mem.md, docs/place.md, docs/pm.md".into();
    }
    let report = |label: &str| {
        let found = stored.iter().find(|stored| stored.label == label)?;
        found.report.clone()
    };
    let outcomes: Vec<Outcome> = of.holds.iter().map(|claim| claim.check(report)).collect();
    let holds = |outcome: &Outcome| matches!(outcome, Outcome::Holds(_));
    if outcomes.iter().all(holds) {
        "reproduced".into()
    } else if outcomes.contains(&Outcome::Unknown) {
        "not run whole yet".into()
    } else {
        "not reproduced".into()
    }
}

fn section(of: &Experiment, stored: &[Stored], commands: &[String]) -> String {
    let mut out = format!(
        "<h2 id=\"{0}\">{0}</h2><p>{1}.</p>",
        of.name,
        escape(of.shows)
    );
    let _ = write!(
        out,
        "<p class=\"soft\">The paper: {}.</p>",
        escape(of.paper)
    );
    let _ = write!(out, "<p><b>{}</b></p>", escape(&verdict(of, stored)));
    let report = |label: &str| {
        let found = stored.iter().find(|stored| stored.label == label)?;
        found.report.clone()
    };
    for claim in &of.holds {
        let (class, text) = match claim.check(report) {
            Outcome::Holds(ratio) => ("yes", format!("it is {}", short(ratio))),
            Outcome::Fails(ratio) => ("no", format!("it is {}", short(ratio))),
            Outcome::Unknown => ("soft", "not measured".into()),
        };
        let _ = write!(
            out,
            "<p class=\"{class}\">{}: {text}</p>",
            escape(&claim.text())
        );
    }
    for metric in [Metric::Operations, Metric::Pages, Metric::Written] {
        let parts: Vec<(String, f64)> = stored
            .iter()
            .filter_map(|stored| Some((stored.label.clone(), metric.of(stored.report.as_ref()?)?)))
            .collect();
        if !parts.is_empty() {
            out += &bars(&parts, metric);
        }
    }
    for text in stored.iter().filter_map(|stored| stored.text.as_ref()) {
        let _ = write!(out, "<pre>{}</pre>", escape(text));
    }
    if !commands.is_empty() {
        let _ = write!(
            out,
            "<details><summary>{} commands</summary><pre>{}</pre></details>",
            commands.len(),
            escape(&commands.join("\n"))
        );
    }
    out
}

/// The page.
pub fn page(plan: &Plan, all: &[Experiment], machine: &str) -> String {
    let mut out = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\"><title>The papers' experiments in Terrace</title><style>{STYLE}</style><h1>The papers' experiments in Terrace</h1><p class=\"soft\">{} of the full size; a device of 20,000 pages a second; {}.</p><table><tr><th>experiment<th>what it shows<th>verdict</tr>",
        plan.scale,
        escape(machine)
    );
    let mut sections = String::new();
    for of in all {
        let steps = plan.steps(of);
        let stored: Vec<Stored> = steps
            .iter()
            .filter_map(|step| plan.stored(of, step))
            .collect();
        let commands: Vec<String> = steps.iter().map(|step| step.command()).collect();
        let _ = write!(
            out,
            "<tr><td><a href=\"#{0}\">{0}</a><td>{1}<td>{2}</tr>",
            of.name,
            escape(of.shows),
            escape(&verdict(of, &stored))
        );
        sections += &section(of, &stored, &commands);
    }
    out + "</table>" + &sections + "</html>\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Claim, Part};
    use serde_json::json;

    #[test]
    fn the_page_says_what_the_results_say() {
        let of = Experiment {
            name: "tiered/fig0",
            shows: "A & b",
            paper: "twice",
            how: How::Engine(vec![Part::new("two", 0.5, ""), Part::new("one", 0.5, "")]),
            holds: vec![Claim::at_least(Metric::Operations, "two", "one", 1.5)],
        };
        let result = |label: &str, ops: f64| Stored {
            command: "c".into(),
            label: label.into(),
            report: Some(json!({"ops_per_second": ops})),
            text: None,
        };
        let both = [result("two", 4321.0), result("one", 1234.0)];
        assert_eq!(verdict(&of, &both), "reproduced");
        let html = section(&of, &both, &["terrace bench".into()]);
        assert!(html.contains(">4321<") && html.contains(">1234<") && html.contains("it is 3.502"));
        assert!(html.contains("A &amp; b"));
        assert_eq!(
            verdict(&of, &[result("two", 1.0), result("one", 1.0)]),
            "not reproduced"
        );
        assert_eq!(verdict(&of, &both[..1]), "not run whole yet");
        assert_eq!(verdict(&of, &[]), "not run yet");
    }
}
