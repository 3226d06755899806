//! A picture of outcomes: for each thing that was counted a bar a structure, a row of bars a work.

use crate::experiments::Opened;
use crate::workload::Outcome;

const WIDTH: f64 = 900.0;
const BAR: f64 = 16.0;
const STEP: f64 = BAR + 4.0;
const LEFT: f64 = 210.0;

/// What is drawn of each outcome: the length of its bar, and of the darker part of it.
struct Panel {
    title: &'static str,
    bars: fn(&Outcome) -> (f64, f64),
    digits: usize,
}

const PANELS: [Panel; 4] = [
    Panel {
        title: "Lines flushed an operation (light), fences (dark)",
        bars: |o| (o.lines(), o.fences()),
        digits: 2,
    },
    Panel {
        title: "The tail: lines of 99.99 in 100 operations at most (light), their fences (dark)",
        bars: |o| (o.p9999_lines as f64, o.p9999_fences as f64),
        digits: 0,
    },
    Panel {
        title: "KiB of log held",
        bars: |o| (o.log_bytes as f64 / 1024.0, 0.0),
        digits: 0,
    },
    Panel {
        title: "Bytes of ordinary memory a key",
        bars: |o| (o.dram_bytes_per_key, 0.0),
        digits: 2,
    },
];

/// All of it as SVG.
pub fn svg(outcomes: &[Outcome], opened: &[Opened]) -> String {
    let panel_height = outcomes.len() as f64 * STEP + 40.0;
    let height = PANELS.len() as f64 * panel_height + opened.len() as f64 * STEP + 20.0;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n"
    );
    for (number, panel) in PANELS.iter().enumerate() {
        draw(&mut text, panel, number as f64 * panel_height, outcomes);
    }
    for (i, opened) in opened.iter().enumerate() {
        let y = PANELS.len() as f64 * panel_height + 20.0 + i as f64 * STEP;
        text.push_str(&format!(
            "<text x=\"10\" y=\"{y}\">{}</text>\n",
            opened.line()
        ));
    }
    text.push_str("</svg>\n");
    text
}

fn draw(text: &mut String, panel: &Panel, top: f64, outcomes: &[Outcome]) {
    let longest = outcomes.iter().map(|o| (panel.bars)(o).0);
    let scale = (WIDTH - LEFT - 120.0) / longest.fold(0.1, f64::max);
    text.push_str(&format!(
        "<text x=\"10\" y=\"{}\" font-weight=\"bold\">{}</text>\n",
        top + 20.0,
        panel.title
    ));
    for (i, o) in outcomes.iter().enumerate() {
        let y = top + 34.0 + i as f64 * STEP;
        let (light, dark) = (panel.bars)(o);
        let digits = panel.digits;
        let told = match dark > 0.0 {
            true => format!("{light:.digits$} / {dark:.digits$}"),
            false => format!("{light:.digits$}"),
        };
        text.push_str(&format!(
            "<text x=\"10\" y=\"{}\">{} / {}</text>\n<rect x=\"{LEFT}\" y=\"{y}\" width=\"{:.1}\" height=\"{BAR}\" fill=\"#9ecae1\"/>\n<rect x=\"{LEFT}\" y=\"{}\" width=\"{:.1}\" height=\"{}\" fill=\"#3182bd\"/>\n<text x=\"{:.1}\" y=\"{}\">{told}</text>\n",
            y + 12.0,
            o.work.name(),
            o.name.name(),
            light * scale,
            y + BAR / 2.0,
            dark * scale,
            BAR / 2.0,
            LEFT + light * scale + 6.0,
            y + 12.0,
        ));
    }
}
