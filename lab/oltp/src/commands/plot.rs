//! Bars as SVG.

use std::fmt::Write;
use std::path::Path;

/// Writes a picture of values with their names.
///
/// # Errors
/// Those of the file.
pub fn bars(path: &Path, title: &str, values: &[(String, f64)]) -> anyhow::Result<()> {
    let most = values
        .iter()
        .map(|(_, value)| *value)
        .fold(f64::MIN_POSITIVE, f64::max);
    let height = 40 + 22 * values.len();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"900\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"13\">\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/><text x=\"10\" y=\"22\" font-size=\"16\">{title}</text>\n"
    );
    for (i, (name, value)) in values.iter().enumerate() {
        let (y, wide) = (36 + 22 * i, value / most * 480.0);
        writeln!(
            svg,
            "<text x=\"10\" y=\"{}\">{name}</text><rect x=\"320\" y=\"{y}\" width=\"{wide:.1}\" height=\"16\" fill=\"#0072b2\"/>\
             <text x=\"{:.1}\" y=\"{}\">{value:.0}</text>",
            y + 13,
            326.0 + wide,
            y + 13
        )?;
    }
    svg.push_str("</svg>\n");
    Ok(std::fs::write(path, svg)?)
}
