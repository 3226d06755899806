//! Figures of the program that has the database open, under names of their own.

use terrace::Stats;

use crate::text::Text;

/// Writes all of them; those with a name that is none are left out.
pub fn families(stats: &Stats, text: &mut Text) {
    let mut before = "";
    for figure in stats.program.iter().filter(|figure| is_name(&figure.name)) {
        if figure.name != before {
            text.foreign_family(&figure.name, figure.counts, &figure.help);
            before = &figure.name;
        }
        let labels: Vec<(&str, &str)> = figure
            .labels
            .iter()
            .filter(|(name, _)| is_name(name))
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        text.foreign_sample(&figure.name, figure.counts, &labels, figure.value);
    }
}

fn is_name(name: &str) -> bool {
    let good = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.bytes().all(good)
}
