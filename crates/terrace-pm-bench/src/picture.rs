//! A picture of outcomes: a bar a structure, a row of bars a work.

use crate::workload::Outcome;

const WIDTH: f64 = 900.0;
const BAR: f64 = 16.0;
const LEFT: f64 = 210.0;

/// Bars of lines an operation, with fences in a darker part, as SVG.
pub fn svg(outcomes: &[Outcome]) -> String {
    let most = outcomes.iter().map(Outcome::lines).fold(0.1, f64::max);
    let scale = (WIDTH - LEFT - 120.0) / most;
    let height = outcomes.len() as f64 * (BAR + 4.0) + 50.0;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n<text x=\"10\" y=\"20\">Lines flushed an operation (light), fences (dark)</text>\n"
    );
    for (i, o) in outcomes.iter().enumerate() {
        let y = 34.0 + i as f64 * (BAR + 4.0);
        text.push_str(&format!(
            "<text x=\"10\" y=\"{}\">{} / {}</text>\n<rect x=\"{LEFT}\" y=\"{y}\" width=\"{:.1}\" height=\"{BAR}\" fill=\"#9ecae1\"/>\n<rect x=\"{LEFT}\" y=\"{}\" width=\"{:.1}\" height=\"{}\" fill=\"#3182bd\"/>\n<text x=\"{:.1}\" y=\"{}\">{:.2} / {:.2}</text>\n",
            y + 12.0,
            o.work.name(),
            o.name.name(),
            o.lines() * scale,
            y + BAR / 2.0,
            o.fences() * scale,
            BAR / 2.0,
            LEFT + o.lines() * scale + 6.0,
            y + 12.0,
            o.lines(),
            o.fences(),
        ));
    }
    text.push_str("</svg>\n");
    text
}
