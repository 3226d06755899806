//! The picture of a figure: a panel for each workload, a colour for each placement.

use crate::row::Row;
use std::fmt::Write;

const COLOURS: [&str; 12] = [
    "#1b6ca8", "#d1495b", "#66a182", "#edae49", "#8d6a9f", "#555555", "#2e4057", "#c98b5e",
    "#00a5a5", "#a0a0a0", "#7cb518", "#b5179e",
];
const WIDTH: f64 = 960.0;
const LEFT: f64 = 50.0;
/// Where the names of placements are.
const NAMES: f64 = 230.0;
const TOP: f64 = 40.0;
const HEIGHT: f64 = 260.0;
const BELOW: f64 = 45.0;
/// Between two panels.
const GAP: f64 = 20.0;
/// A name is cut here, so that it stays in the picture.
const LONGEST_NAME: usize = 34;

/// What the height is; `None` where a table says it all.
fn shown(figure: &str) -> Option<&'static str> {
    Some(match figure {
        "steps" | "table2" => return None,
        "records" => "waits for slow memory a lookup",
        "fig5" => {
            "touches of so many hundredths of the nodes, from the coldest on, of all in these pages"
        }
        "fig6" => "share of all touches (first two), of missing touches that were fast",
        "fig20" => "part of the fast memory that is in use, over time",
        "fig15a" => "share of missing touches that were fast, over time",
        _ => "share of missing touches that were fast",
    })
}

fn height_of(row: &Row) -> f64 {
    let of = |name: &str| row.more.iter().find(|(n, _)| n == name);
    match (row.figure, of("slow_per_op")) {
        ("records", Some((_, value))) => value.as_f64().unwrap_or(0.0),
        _ => row.missing_fast_share,
    }
}

/// In the order in which they come.
fn kinds<'a>(rows: &'a [Row], of: impl Fn(&'a Row) -> String) -> Vec<String> {
    let mut kinds: Vec<String> = vec![];
    for row in rows {
        let kind = of(row);
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds
}

/// The picture of a figure, as SVG: lines where rows have series, or differ by the share of fast memory, bars
/// otherwise.
pub fn picture(figure: &str, rows: &[Row]) -> Option<String> {
    let title = shown(figure)?;
    let trees = kinds(rows, |row| row.tree.to_string()).len();
    let name = |row: &Row| match trees {
        1 => row.policy.clone(),
        _ => format!("{}: {}", row.tree, row.policy),
    };
    let (names, workloads) = (kinds(rows, name), kinds(rows, |row| row.workload.clone()));
    let colour = |row: &Row| {
        let i = names.iter().position(|n| *n == name(row)).unwrap_or(0);
        COLOURS[i % COLOURS.len()]
    };
    let series = rows.iter().any(|row| row.series.len() > 1);
    let one = |row: &Row| (name(row), row.workload.clone());
    let shares = !series
        && rows.iter().all(|row| {
            let of: Vec<f64> = rows
                .iter()
                .filter(|r| one(r) == one(row))
                .map(|r| r.fast_share)
                .collect();
            of.len() > 1 && of.windows(2).all(|two| two[0] < two[1])
        });
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{}\" \
         font-family=\"sans-serif\" font-size=\"11\"><rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\
         <text x=\"{LEFT}\" y=\"20\" font-size=\"14\">{figure}: {title}</text>\n",
        TOP + HEIGHT + BELOW
    );
    let y = |share: f64| TOP + HEIGHT * (1.0 - share.clamp(0.0, 1.0));
    for tick in 0..=5 {
        let share = f64::from(tick) / 5.0;
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{share:.1}</text>",
            WIDTH - NAMES,
            LEFT - 6.0,
            y(share) + 4.0,
            y = y(share)
        );
    }
    let whole = (WIDTH - NAMES - LEFT + GAP) / workloads.len().max(1) as f64;
    for (i, workload) in workloads.iter().enumerate() {
        let (left, width) = (LEFT + whole * i as f64, whole - GAP);
        let of: Vec<&Row> = rows
            .iter()
            .filter(|row| row.workload == *workload)
            .collect();
        let text = |svg: &mut String, x: f64, line: f64, text: &str| {
            let y = TOP + HEIGHT + line;
            let _ = writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{}</text>",
                escape(text)
            );
        };
        let below = match shares {
            true => format!("{workload}, by the share of fast memory"),
            false => workload.clone(),
        };
        text(&mut svg, left + width / 2.0, 34.0, &below);
        if series {
            for row in of {
                let step = width / (row.series.len().max(2) - 1) as f64;
                let points = row.series.iter().enumerate();
                let points = points.map(|(x, v)| (left + step * x as f64, y(*v)));
                line(&mut svg, points, colour(row));
            }
        } else if shares {
            let (least, most) = of.iter().fold((f64::MAX, 0.0f64), |(a, b), row| {
                (a.min(row.fast_share), b.max(row.fast_share))
            });
            let x = |share: f64| left + width * (share - least) / (most - least).max(1e-9);
            for name_of in &names {
                let points = of.iter().filter(|row| name(row) == *name_of);
                let points: Vec<_> = points.collect();
                if let Some(first) = points.first() {
                    let at = points
                        .iter()
                        .map(|row| (x(row.fast_share), y(height_of(row))));
                    line(&mut svg, at, colour(first));
                }
            }
            text(&mut svg, left + 10.0, 16.0, &format!("{least}"));
            text(&mut svg, left + width - 10.0, 16.0, &format!("{most}"));
        } else {
            let step = width / of.len().max(1) as f64;
            for (i, row) in of.into_iter().enumerate() {
                let (x, up) = (left + step * i as f64, y(height_of(row)));
                let _ = writeln!(
                    svg,
                    "<rect class=\"bar\" x=\"{x:.1}\" y=\"{up:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\"/>",
                    (step * 0.85).max(1.0),
                    TOP + HEIGHT - up,
                    colour(row)
                );
            }
        }
    }
    for (i, name) in names.iter().enumerate() {
        let short: String = name.chars().take(LONGEST_NAME).collect();
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" fill=\"{}\">{}</text>",
            WIDTH - NAMES + 12.0,
            TOP + 14.0 * (i as f64 + 1.0),
            COLOURS[i % COLOURS.len()],
            escape(&short)
        );
    }
    svg.push_str("</svg>\n");
    Some(svg)
}

/// For a text of a page, or of a picture.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

fn line(svg: &mut String, points: impl Iterator<Item = (f64, f64)>, colour: &str) {
    let points: Vec<String> = points.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let _ = writeln!(
        svg,
        "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\" points=\"{}\"/>",
        points.join(" ")
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(policy: &str, workload: &str, fast_share: f64) -> Row {
        Row {
            figure: "fig13",
            tree: "b+tree",
            policy: policy.into(),
            workload: workload.into(),
            fast_share,
            missing_fast_share: 0.5,
            over_optimum: None,
            moves_per_1000: 0.0,
            more: vec![],
            series: vec![],
        }
    }

    #[test]
    fn each_placement_is_named_once_and_each_row_drawn() {
        let rows: Vec<Row> = ["sp", "zipf"]
            .iter()
            .flat_map(|w| ["heat", "tpp", "a<b"].map(|p| row(p, w, 0.1)))
            .collect();
        let svg = picture("fig13", &rows).unwrap();
        assert_eq!(svg.matches("class=\"bar\"").count(), 6);
        for name in ["heat", "tpp", "a&lt;b", "sp", "zipf"] {
            assert_eq!(svg.matches(&format!(">{name}<")).count(), 1, "{name}");
        }
    }

    #[test]
    fn shares_of_fast_memory_are_a_line() {
        let rows: Vec<Row> = ["heat", "tpp"]
            .iter()
            .flat_map(|p| [0.1, 0.2, 0.4].map(|share| row(p, "sp", share)))
            .collect();
        let svg = picture("fig15c", &rows).unwrap();
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert!(!svg.contains("class=\"bar\""));
        assert!(picture("steps", &rows).is_none());
    }
}
