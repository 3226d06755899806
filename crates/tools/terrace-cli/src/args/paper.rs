//! Which policy the tiers have, on the command line of the benchmark, and the paper's own for LSM-trees: for
//! comparison.

use clap::{Args, ValueEnum};

use crate::engine::Rates;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PolicyName {
    /// Three-bit use counts; a record that was read comes into a full hot tier only if it displaces one
    /// that is used less
    Default,
    /// That of the paper, as the baseline: sampled admission, one reference bit, a clock
    Paper,
}

impl PolicyName {
    /// As it is said on the command line.
    pub fn name(self) -> &'static str {
        match self {
            PolicyName::Default => "default",
            PolicyName::Paper => "paper",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// With it
    On,
    /// Without
    Off,
}

impl Switch {
    /// As it is said on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Switch::On => "on",
            Switch::Off => "off",
        }
    }
}

const HEADING: &str = "The paper's policy for LSM-trees, for comparison";

/// Options of `terrace bench --structure lsm`.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = HEADING)]
pub struct PaperArgs {
    /// Which of the records read from disk come into the memtable: never, all, const:0.3, up:0.3 (of those
    /// that a page was read for), or exp, by depth
    #[arg(long, value_name = "RATE", value_parser = parse_rates, hide_short_help = true)]
    #[arg(conflicts_with_all = ["record_cache", "policy", "table3"])]
    pub promote: Option<Rates>,

    /// Whether records that were read stay in memory when the memtable is written down
    #[arg(
        long,
        value_enum,
        value_name = "SWITCH",
        default_value = "on",
        hide_short_help = true
    )]
    #[arg(requires = "promote")]
    pub early: Switch,

    /// Whether promotion ends where it gains nothing, and begins again where it does
    #[arg(
        long,
        value_enum,
        value_name = "SWITCH",
        default_value = "on",
        hide_short_help = true
    )]
    #[arg(requires = "promote")]
    pub control: Switch,

    /// The period of that control; a hundred of them are looked at
    #[arg(long, value_name = "SECONDS", hide_short_help = true)]
    pub control_period: Option<f64>,

    /// Run the six rows of the paper's Table 3, one after the other, each on a database of its own
    #[arg(long, hide_short_help = true)]
    #[arg(conflicts_with_all = ["record_cache", "policy", "skip_load", "plot", "histogram", "audit"])]
    pub table3: bool,
}

/// A rate as it is typed.
fn parse_rates(text: &str) -> Result<Rates, String> {
    let wrong = || format!("{text} is no rate: give never, all, const:0.3, up:0.3 or exp");
    let share = |text: &str| {
        let share = text.parse::<f64>().map_err(|_| wrong())?;
        match (0.0..=1.0).contains(&share) {
            true => Ok(share),
            false => Err(format!("{text} is no share: give a number from 0 to 1")),
        }
    };
    match text.split_once(':') {
        None => match text {
            "never" => Ok(Rates::Never),
            "all" => Ok(Rates::All),
            "exp" => Ok(Rates::Exponential),
            _ => Err(wrong()),
        },
        Some(("const", text)) => share(text).map(Rates::Constant),
        Some(("up", text)) => share(text).map(Rates::UpLsm),
        Some(_) => Err(wrong()),
    }
}

/// The same the other way round.
pub fn name_of(rates: Rates) -> String {
    match rates {
        Rates::Never => "never".into(),
        Rates::All => "all".into(),
        Rates::Constant(share) => format!("const:{share}"),
        Rates::UpLsm(share) => format!("up:{share}"),
        Rates::Exponential => "exp".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_come_back_as_they_were_typed() {
        for text in ["never", "all", "const:0.3", "const:1", "up:0.25", "exp"] {
            assert_eq!(parse_rates(text).map(name_of).as_deref(), Ok(text));
        }
        assert_eq!(parse_rates("const:.3"), Ok(Rates::Constant(0.3)));
        for bad in [
            "",
            "some",
            "const",
            "const:",
            "const:x",
            "const:1.1",
            "const:-0.1",
            "const:nan",
            "up:2",
            "exp:1",
            "all:0.5",
        ] {
            assert!(parse_rates(bad).is_err(), "{bad}");
        }
    }
}
