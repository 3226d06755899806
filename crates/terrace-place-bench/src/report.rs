//! Rows as a table, as JSON, and as pictures on one page.

use crate::run::Outcome;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;

/// One measurement.
#[derive(Debug, Clone)]
pub struct Row {
    pub figure: &'static str,
    pub tree: &'static str,
    pub policy: String,
    pub workload: String,
    pub fast_share: f64,
    pub missing_fast_share: f64,
    /// Of what the best placement of nodes reaches on the same tree and trace.
    pub over_optimum: Option<f64>,
    pub moves_per_1000: f64,
    /// Further figures, by name.
    pub more: Vec<(String, Value)>,
    /// A series over time, or over what the figure varies.
    pub series: Vec<f64>,
}

impl Row {
    pub fn of(
        (figure, tree): (&'static str, &'static str),
        policy: String,
        workload: &str,
        fast_share: f64,
        outcome: &Outcome,
        optimum: Option<f64>,
        rs: &[f64],
    ) -> Row {
        let mut more = vec![
            (
                "fast_share_of_touches".into(),
                json!(round(outcome.fast_all)),
            ),
            ("missing_per_op".into(), json!(round(outcome.missing))),
            ("slow_per_op".into(), json!(round(outcome.slow))),
            ("filled".into(), json!(round(outcome.filled))),
        ];
        for r in rs {
            more.push((format!("time_r{r}"), json!(round(outcome.time(*r)))));
            for (name, q) in [("p90", 0.9), ("p99", 0.99), ("p999", 0.999)] {
                more.push((format!("{name}_r{r}"), json!(outcome.quantile(q, *r))));
            }
        }
        Row {
            figure,
            tree,
            policy,
            workload: workload.into(),
            fast_share,
            missing_fast_share: outcome.fast_missing,
            over_optimum: optimum.map(|best| outcome.fast_missing / best.max(1e-9)),
            moves_per_1000: outcome.moves_per_1000,
            more,
            series: outcome.series.clone(),
        }
    }

    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Row {
        self.more.push((name.into(), value.into()));
        self
    }

    pub fn json(&self) -> Value {
        let mut value = json!({
            "figure": self.figure,
            "tree": self.tree,
            "policy": self.policy,
            "workload": self.workload,
            "fast_share": self.fast_share,
            "missing_fast_share": round(self.missing_fast_share),
            "over_optimum": self.over_optimum.map(round),
            "moves_per_1000": round(self.moves_per_1000),
        });
        for (name, more) in &self.more {
            value[name] = more.clone();
        }
        if !self.series.is_empty() {
            value["series"] = self.series.iter().map(|v| round(*v)).collect();
        }
        value
    }
}

pub fn round(value: f64) -> f64 {
    (value * 10_000.0).round() / 10_000.0
}

/// Rows as text.
pub fn table(rows: &[Row]) -> String {
    let mut text = String::new();
    let width = rows
        .iter()
        .map(|r| r.policy.len())
        .max()
        .unwrap_or(0)
        .max(6);
    let _ = writeln!(
        text,
        "figure  tree    {:<width$}  {:<10} {:>5} {:>8} {:>8} {:>10}  more",
        "policy", "workload", "fast", "missing", "of best", "moves/1000"
    );
    for row in rows {
        let best = row
            .over_optimum
            .map_or("-".to_string(), |best| format!("{best:.3}"));
        let _ = write!(
            text,
            "{:<7} {:<7} {:<width$}  {:<10} {:>5.2} {:>8.3} {best:>8} {:>10.2} ",
            row.figure,
            row.tree,
            row.policy,
            row.workload,
            row.fast_share,
            row.missing_fast_share,
            row.moves_per_1000
        );
        for (name, value) in &row.more {
            let _ = write!(text, " {name} {value}");
        }
        text.push('\n');
        if !row.series.is_empty() {
            let series: Vec<String> = row.series.iter().map(|v| format!("{v:.3}")).collect();
            let _ = writeln!(text, "        {}", series.join(" "));
        }
    }
    text
}

/// Writes the rows as JSON lines.
pub fn write_json(rows: &[Row], path: &Path) -> Result<()> {
    let lines: String = rows.iter().map(|row| format!("{}\n", row.json())).collect();
    std::fs::write(path, lines).with_context(|| format!("{} cannot be written", path.display()))
}

const COLOURS: [&str; 8] = [
    "#1b6ca8", "#d1495b", "#66a182", "#edae49", "#8d6a9f", "#555555", "#2e4057", "#c98b5e",
];

/// Writes one picture a figure, and a page that shows all of them with their tables.
pub fn write_pictures(rows: &[Row], folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("{} cannot be made", folder.display()))?;
    let mut page = String::from(
        "<!doctype html><meta charset=\"utf-8\"><title>place-bench</title>\
         <style>body{font:15px sans-serif;max-width:60em;margin:2em auto}pre{font-size:12px;\
         overflow:auto}</style><h1>Nodes in fast and slow memory</h1>\n",
    );
    let mut figures: Vec<&str> = vec![];
    for row in rows.iter().filter(|row| row.figure != "bars") {
        if !figures.contains(&row.figure) {
            figures.push(row.figure);
        }
    }
    for figure in figures {
        let of: Vec<Row> = rows
            .iter()
            .filter(|r| r.figure == figure)
            .cloned()
            .collect();
        let svg = picture(figure, &of);
        let path = folder.join(format!("{figure}.svg"));
        std::fs::write(&path, &svg)
            .with_context(|| format!("{} cannot be written", path.display()))?;
        let _ = write!(
            page,
            "<h2>{figure}</h2>\n<img src=\"{figure}.svg\" alt=\"{figure}\">\n<pre>{}</pre>\n",
            escape(&table(&of))
        );
    }
    let path = folder.join("index.html");
    std::fs::write(&path, page).with_context(|| format!("{} cannot be written", path.display()))
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// What the height of a picture is.
fn shown(figure: &str) -> &'static str {
    match figure {
        "fig5" => {
            "touches of so many hundredths of the nodes, from the coldest on, of all in these pages"
        }
        "fig6" => "share of all touches (first two), of missing touches that were fast",
        _ => "share of missing touches that were fast",
    }
}

/// Lines where rows have series, bars otherwise; the height is what [`shown`] says.
fn picture(figure: &str, rows: &[Row]) -> String {
    let lines = rows.iter().any(|row| row.series.len() > 1);
    let (width, top, height) = (900.0, 40.0, 260.0);
    let deep = if lines { 40.0 } else { 150.0 };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{}\" \
         font-family=\"sans-serif\" font-size=\"11\"><text x=\"50\" y=\"20\" font-size=\"14\">\
         {figure}: {}</text>\n",
        top + height + deep,
        shown(figure)
    );
    let y = |share: f64| top + height * (1.0 - share.clamp(0.0, 1.0));
    for tick in 0..=5 {
        let share = f64::from(tick) / 5.0;
        let _ = writeln!(
            svg,
            "<line x1=\"50\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\
             <text x=\"20\" y=\"{y:.1}\">{share:.1}</text>",
            width - 10.0,
            y = y(share)
        );
    }
    let count = rows.len().max(1) as f64;
    for (i, row) in rows.iter().enumerate() {
        let colour = COLOURS[i % COLOURS.len()];
        if lines {
            let step = (width - 220.0) / (row.series.len().max(2) - 1) as f64;
            let points: Vec<String> = row
                .series
                .iter()
                .enumerate()
                .map(|(x, v)| format!("{:.1},{:.1}", 50.0 + step * x as f64, y(*v)))
                .collect();
            let _ = writeln!(
                svg,
                "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\" \
                 points=\"{}\"/><text x=\"{}\" y=\"{}\" fill=\"{colour}\">{} {}</text>",
                points.join(" "),
                width - 160.0,
                top + 14.0 * (i as f64 + 1.0),
                escape(&row.policy),
                escape(&row.workload)
            );
        } else {
            let step = (width - 70.0) / count;
            let x = 55.0 + step * i as f64;
            let up = y(row.missing_fast_share);
            let label = format!("{} {} {}", row.policy, row.workload, row.fast_share);
            let _ = writeln!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{up:.1}\" width=\"{:.1}\" height=\"{:.1}\" \
                 fill=\"{colour}\"/><text transform=\"translate({:.1},{:.1}) rotate(60)\">{}</text>",
                (step * 0.8).max(1.0),
                top + height - up,
                x + step * 0.3,
                top + height + 10.0,
                escape(&label)
            );
        }
    }
    svg.push_str("</svg>\n");
    svg
}
