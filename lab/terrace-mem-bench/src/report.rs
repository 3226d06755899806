//! What was measured, as a table, as JSON, and as plots of throughput against memory.

use crate::workload::Row;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

/// A column: heading, figure, and whether more is better (and a ratio is shown).
type Column = (&'static str, fn(&Row) -> f64, bool);

const COLUMNS: [Column; 12] = [
    ("bytes", |r| r.bytes, false),
    ("peak", |r| r.peak, false),
    ("insert", |r| r.insert / 1e6, true),
    ("get", |r| r.get / 1e6, true),
    ("batch", |r| r.batch / 1e6, true),
    ("read/write", |r| r.read_write / 1e6, true),
    ("scan 50", |r| r.scan / 1e6, true),
    ("scan/insert", |r| r.scan_insert / 1e6, true),
    ("pause ms", |r| r.pause, false),
    ("by clock", |r| r.pause_wall, false),
    ("worst ms", |r| r.worst, false),
    ("worst by clock", |r| r.worst_wall, false),
];

/// The row of the same keys that the others are measured by: the first.
fn base<'a>(rows: &'a [Row], row: &Row) -> &'a Row {
    rows.iter().find(|r| r.keys == row.keys).unwrap_or(&rows[0])
}

/// A table for people: rates in millions a second, ratios to the first map in brackets.
pub fn table(rows: &[Row]) -> String {
    let mut out = String::from("| keys | map |");
    for (name, ..) in COLUMNS {
        let _ = write!(out, " {name} |");
    }
    out.push_str("\n| --- | --- |");
    out.push_str(&" ---: |".repeat(COLUMNS.len()));
    for row in rows {
        let _ = write!(out, "\n| {} | {} |", row.keys, row.map);
        for (_, figure, ratio) in COLUMNS {
            let (x, first) = (figure(row), figure(base(rows, row)));
            let _ = match (x > 0.0, ratio) {
                (false, _) => write!(out, " |"),
                (_, true) => write!(out, " {x:.2} ({:.2}) |", x / first),
                (_, false) => write!(out, " {x:.2} |"),
            };
        }
    }
    out.push('\n');
    out
}

/// Names of the figures in JSON; rates are operations a second.
const FIELDS: [(&str, fn(&Row) -> f64); 12] = [
    ("bytes_per_entry", |r| r.bytes),
    ("inserts_per_second", |r| r.insert),
    ("gets_per_second", |r| r.get),
    ("scans_per_second", |r| r.scan),
    ("longest_insert_us", |r| r.pause * 1e3),
    ("peak", |r| r.peak),
    ("batched_gets_per_second", |r| r.batch),
    ("half_updates_per_second", |r| r.read_write),
    ("scans_with_inserts_per_second", |r| r.scan_insert),
    ("longest_insert_by_clock_us", |r| r.pause_wall * 1e3),
    ("worst_insert_us", |r| r.worst * 1e3),
    ("worst_insert_by_clock_us", |r| r.worst_wall * 1e3),
];

/// All figures, one object for each row; 0 where it was not measured.
pub fn json(rows: &[Row], entries: usize) -> String {
    let mut out = String::from("[");
    for (i, row) in rows.iter().enumerate() {
        let comma = if i == 0 { "" } else { "," };
        let _ = write!(
            out,
            "{comma}\n  {{\"pair\": \"{}\", \"keys\": \"{}\", \"entries\": {entries}",
            row.map, row.keys
        );
        for (name, figure) in FIELDS {
            let _ = write!(out, ", \"{name}\": {:.4}", figure(row));
        }
        out.push('}');
    }
    out.push_str("\n]\n");
    out
}

/// Writes a plot for each key set and workload: bytes an entry to the right, rate upwards.
pub fn plots(rows: &[Row], dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let mut sets: Vec<&str> = rows.iter().map(|r| r.keys).collect();
    sets.dedup();
    for set in sets {
        let rows: Vec<&Row> = rows.iter().filter(|r| r.keys == set).collect();
        for (name, figure, rate) in COLUMNS {
            if rate {
                let file = format!("{set}-{}.svg", name.replace(['/', ' '], "-"));
                fs::write(dir.join(file), plot(set, name, &rows, figure))?;
            }
        }
    }
    Ok(())
}

fn plot(set: &str, name: &str, rows: &[&Row], figure: fn(&Row) -> f64) -> String {
    let (width, height, left, low) = (640.0, 400.0, 60.0, 340.0);
    let most = |f: &dyn Fn(&Row) -> f64| rows.iter().map(|r| f(r)).fold(1e-9, f64::max) * 1.15;
    let (most_x, most_y) = (most(&|r| r.bytes), most(&figure));
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{left}\" y=\"20\" font-size=\"15\">{set}: {name}, millions a second</text>\n\
         <path d=\"M{left} 30V{low}H{width}\" fill=\"none\" stroke=\"black\"/>\n\
         <text x=\"280\" y=\"385\">bytes per entry</text>\n"
    );
    for i in 0..=4 {
        let (x, y) = (most_x * f64::from(i) / 4.0, most_y * f64::from(i) / 4.0);
        let (px, py) = (
            left + 560.0 * f64::from(i) / 4.0,
            low - 300.0 * f64::from(i) / 4.0,
        );
        let _ = writeln!(out, "<text x=\"{px}\" y=\"358\">{x:.0}</text>");
        let _ = writeln!(out, "<text x=\"10\" y=\"{py}\">{y:.2}</text>");
    }
    for row in rows {
        let x = left + 560.0 * row.bytes / most_x;
        let y = low - 300.0 * figure(row) / most_y;
        let color = if row.map.starts_with("hybrid") {
            "#c33"
        } else {
            "#357"
        };
        let _ = writeln!(
            out,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\" fill=\"{color}\"/>"
        );
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            x + 8.0,
            y - 6.0,
            row.map
        );
    }
    out.push_str("</svg>\n");
    out
}
