//! A place in the order of changes, as programs keep it.
//!
//! Invariant: what was written as text is read as the same place; any other text is an error.

use std::str::FromStr;

use terrace_base::{Error, Result};
use terrace_wal::Place as LogPlace;

/// Hexadecimal digits of a place: 32 bits, 64, 32, 64 and 64.
const DIGITS: usize = 64;

/// A place in the order of changes, behind a commit: reading goes on from here, in another process too. As
/// text (`to_string`, `parse`) it has 64 hexadecimal digits, which mean nothing to others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Where the log is read from: at or before what comes next.
    pub(super) log: LogPlace,
    /// The first commit that is given out.
    pub(super) next: u64,
}

impl Place {
    /// The number of the first commit behind it, at least.
    pub fn next_sequence(&self) -> u64 {
        self.next
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let LogPlace {
            segment,
            incarnation,
            offset,
            sequence,
        } = self.log;
        let next = self.next;
        write!(
            f,
            "{segment:08x}{incarnation:016x}{offset:08x}{sequence:016x}{next:016x}"
        )
    }
}

impl FromStr for Place {
    type Err = Error;

    fn from_str(text: &str) -> Result<Place> {
        let number = |from: usize, to: usize| u64::from_str_radix(&text[from..to], 16).ok();
        let read = || {
            // Digits only: `from_str_radix` would take a sign.
            let right = text.len() == DIGITS && text.bytes().all(|b| b.is_ascii_hexdigit());
            right.then_some(())?;
            Some(Place {
                log: LogPlace {
                    segment: u32::try_from(number(0, 8)?).ok()?,
                    incarnation: number(8, 24)?,
                    offset: u32::try_from(number(24, 32)?).ok()?,
                    sequence: number(32, 48)?,
                },
                next: number(48, 64)?,
            })
        };
        read().ok_or_else(|| {
            let shown: String = text.chars().take(DIGITS).collect();
            Error::invalid(format!(
                "{shown:?} is no place in the changes; it has {DIGITS} hexadecimal digits, as a commit's place says them"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_place_comes_back_from_its_text(
            segment: u32, incarnation: u64, offset: u32, sequence: u64, next: u64,
        ) {
            let log = LogPlace { segment, incarnation, offset, sequence };
            let place = Place { log, next };
            let text = place.to_string();
            prop_assert_eq!(text.len(), DIGITS);
            prop_assert_eq!(text.parse::<Place>().unwrap(), place);
        }

        #[test]
        fn any_other_text_is_an_error(text in "\\PC{0,70}") {
            prop_assume!(text.len() != DIGITS || !text.bytes().all(|b| b.is_ascii_hexdigit()));
            prop_assert!(text.parse::<Place>().is_err());
        }
    }
}
