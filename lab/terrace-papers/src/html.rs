//! A page in one file: light and dark, bars as pictures, notes of bars as tooltips; no network, no scripts.
//!
//! Invariant: every text that is not the page's own is escaped.

use std::fmt::Write as _;

const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1d1d20; --soft: #64666e; --page: #fff; --card: #f6f7f9; --rule: #dfe1e6;
 --bar: #3572b0; --other: #c9ccd4; --yes: #1f7a3d; --no: #b3372a; --link: #1f5fa8; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e7ea; --soft: #9a9ca5; --page: #15161a; --card: #1d1f24;
 --rule: #32353d; --bar: #6aa5e3; --other: #4a4e58; --yes: #6cc487; --no: #ef8a7c; --link: #84b8ef; } }
* { box-sizing: border-box; }
body { font: 15px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--page); max-width: 62rem;
 margin: 2.5rem auto; padding: 0 1.2rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .4rem; }
h2 { font-size: 1.05rem; margin: 0; } h2 a { color: inherit; text-decoration: none; }
a { color: var(--link); } p { margin: .35rem 0; }
section { background: var(--card); border: 1px solid var(--rule); border-radius: 8px; padding: .9rem 1.1rem; margin: 1.1rem 0; }
pre { font: 12px/1.45 ui-monospace, monospace; overflow-x: auto; margin: .5rem 0; }
table { border-collapse: collapse; width: 100%; margin: 1rem 0; font-size: 14px; }
td, th { padding: .25rem .6rem .25rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--rule); }
th { color: var(--soft); font-weight: 500; } td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; } .soft { color: var(--soft); } .yes { color: var(--yes); } .no { color: var(--no); }
summary { cursor: pointer; color: var(--soft); font-size: 13px; } ul { margin: .4rem 0; padding-left: 1.2rem; }
svg { width: 100%; height: auto; display: block; margin: .6rem 0 .2rem; }
svg text { fill: var(--ink); font: 12px system-ui, sans-serif; } svg .head, svg .group { fill: var(--soft); }
svg rect { fill: var(--bar); } svg rect.other { fill: var(--other); }
";

/// A text as it may stand in a page.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// A figure in few digits.
pub fn short(figure: f64) -> String {
    match figure.abs() {
        0.0 => "0".into(),
        x if x >= 10_000.0 => {
            let mut text = format!("{figure:.0}");
            let mut at = text.len();
            while at > 3 {
                at -= 3;
                if !text[..at].is_empty() && text[..at] != *"-" {
                    text.insert(at, ' ');
                }
            }
            text
        }
        x if x >= 100.0 => format!("{figure:.0}"),
        x if x >= 10.0 => format!("{figure:.1}"),
        x if x >= 0.1 => format!("{figure:.2}"),
        _ => format!("{figure:.4}"),
    }
}

/// A bar: what it is of, its figure, and beside it that of others.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// What it is called.
    pub label: String,
    /// How long it is.
    pub figure: f64,
    /// What others had, drawn below it.
    pub other: Option<f64>,
    /// Shown where the pointer rests on it.
    pub note: String,
}

/// Bars below a heading, each with its figure.
pub fn bars(heading: &str, bars: &[Bar]) -> String {
    const WIDTH: f64 = 820.0;
    const LABEL: f64 = 270.0;
    const TEXT: f64 = 110.0;
    const ROW: f64 = 20.0;
    const SECOND: f64 = 9.0;
    let both = |bar: &Bar| bar.figure.max(bar.other.unwrap_or(0.0));
    let most = bars.iter().map(both).fold(f64::MIN_POSITIVE, f64::max);
    let rows: f64 = bars
        .iter()
        .map(|bar| ROW + bar.other.map_or(0.0, |_| SECOND))
        .sum();
    let mut out = format!(
        "<svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{1}\"><text class=\"head\" x=\"{LABEL}\" y=\"14\">{1}</text>",
        rows + ROW + 4.0,
        escape(heading)
    );
    let mut y = ROW + 2.0;
    for bar in bars {
        let length = |figure: f64| ((WIDTH - LABEL - TEXT) * figure / most).max(1.0);
        let _ = write!(
            out,
            "<g><title>{}</title><text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text><rect x=\"{LABEL}\" y=\"{}\" width=\"{:.1}\" height=\"13\" rx=\"2\"/><text x=\"{:.1}\" y=\"{}\">{}</text>",
            escape(&bar.note),
            LABEL - 8.0,
            y + 12.0,
            escape(&bar.label),
            y + 1.5,
            length(bar.figure),
            LABEL + length(bar.figure) + 6.0,
            y + 12.0,
            short(bar.figure)
        );
        if let Some(other) = bar.other {
            let _ = write!(
                out,
                "<rect class=\"other\" x=\"{LABEL}\" y=\"{}\" width=\"{:.1}\" height=\"6\" rx=\"2\"/><text class=\"group\" x=\"{:.1}\" y=\"{}\">{}</text>",
                y + 17.0,
                length(other),
                LABEL + length(other) + 6.0,
                y + 24.0,
                short(other)
            );
            y += SECOND;
        }
        out += "</g>";
        y += ROW;
    }
    out + "</svg>"
}

/// A whole page: its title, what stands below it, and the rest.
pub fn page(title: &str, below: &str, rest: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{0}</title><style>{STYLE}</style></head><body><h1>{0}</h1><p class=\"soft\">{1}</p>\n{rest}</body></html>\n",
        escape(title),
        escape(below)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        let all = [
            0.0,
            0.01234,
            0.5,
            3.456,
            12.34,
            123.4,
            12_345.6,
            1_234_567.0,
        ];
        let told = [
            "0",
            "0.0123",
            "0.50",
            "3.46",
            "12.3",
            "123",
            "12 346",
            "1 234 567",
        ];
        assert_eq!(all.map(short), told);
    }

    #[test]
    fn bars_are_in_proportion_and_escaped() {
        let bar = |label: &str, figure, other| Bar {
            label: label.into(),
            figure,
            other,
            note: "a < b".into(),
        };
        let svg = bars(
            "x & y",
            &[bar("one", 10.0, None), bar("<two>", 5.0, Some(2.5))],
        );
        assert!(
            svg.contains("x &amp; y") && svg.contains("&lt;two&gt;") && svg.contains("a &lt; b")
        );
        for width in ["440.0", "220.0", "110.0"] {
            assert!(svg.contains(&format!("width=\"{width}\"")), "{svg}");
        }
        assert!(!page("t", "b", &svg).contains("<script"));
    }
}
