//! Rows as a table, as JSON, and on one page with their pictures.

use crate::picture::{escape, picture};
use crate::row::Row;
use anyhow::{Context, Result};
use std::fmt::Write;
use std::path::Path;

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
        let _ = writeln!(page, "<h2>{figure}</h2>");
        if let Some(svg) = picture(figure, &of) {
            let path = folder.join(format!("{figure}.svg"));
            std::fs::write(&path, &svg)
                .with_context(|| format!("{} cannot be written", path.display()))?;
            let _ = writeln!(page, "<img src=\"{figure}.svg\" alt=\"{figure}\">");
        }
        let _ = writeln!(page, "<pre>{}</pre>", escape(&table(&of)));
    }
    let path = folder.join("index.html");
    std::fs::write(&path, page).with_context(|| format!("{} cannot be written", path.display()))
}
