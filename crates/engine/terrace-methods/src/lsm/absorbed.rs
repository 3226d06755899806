//! How much of what users write the tier above gathers, so that it does not come down.
//!
//! Where records are written again and again, much: few bytes come down, and thin. Levels that are larger against
//! the next one then save more writes than they cost room. Where all that is written comes down, as with uniform
//! updates, they are to take little room.

use terrace_base::sync::Mutex;

/// Shares are in parts of which this many are all.
const ONE: u64 = 1 << 10;
/// The share of what users write that comes down, in hundredths, where the levels take little room, and where they take
/// more.
const MUCH: u64 = 97;
const LITTLE: u64 = 65;
/// What was learnt loses one part in this many with each look: some memories full of records count. What comes down
/// comes in bursts, and levels that were sized by one would all have too much at once, or too little.
const FADES: u64 = 32;
/// With each look the share that does not come down is less by one part in this many of all at most: the levels have to
/// give up what they may not have any more.
const FALLS: u64 = 64;

/// The share that the tier above gathers. A hint, lost at an opening: until something is known all comes down.
#[derive(Default)]
pub(crate) struct Absorbed(Mutex<Seen>);

#[derive(Default)]
struct Seen {
    /// Bytes that users had written, and those that had come down, when it was looked last.
    last: (u64, u64),
    /// What was written and what came down lately, the older the less.
    written: u64,
    arrived: u64,
    /// The share that did not come down, in parts of [`ONE`].
    share: u64,
}

impl Absorbed {
    /// `written` bytes were written, and `arrived` have come down, since the opening; who makes a step calls this. What
    /// is learnt at once is of at least `window` bytes.
    pub fn look(&self, written: u64, arrived: u64, window: u64) {
        let mut seen = self.0.lock();
        let wrote = written.saturating_sub(seen.last.0);
        if wrote < window.max(1) {
            return;
        }
        let came = arrived.saturating_sub(seen.last.1);
        seen.last = (written, arrived);
        if seen.written == 0 {
            // As if all had come down before.
            (seen.written, seen.arrived) = (FADES * wrote, FADES * wrote);
        }
        seen.written = seen.written - seen.written / FADES + wrote;
        seen.arrived = seen.arrived - seen.arrived / FADES + came;
        let share = ONE - seen.arrived.min(seen.written) * ONE / seen.written;
        seen.share = share.max(seen.share.saturating_sub(ONE / FALLS));
    }

    /// The part of this that levels are to be larger by.
    pub fn share_of(&self, more: u64) -> u64 {
        let came = ONE - self.0.lock().share;
        let much = (MUCH * ONE / 100).saturating_sub(came);
        (more * much / ((MUCH - LITTLE) * ONE / 100)).min(more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_larger_where_the_tier_above_gathers_much() {
        let absorbed = Absorbed::default();
        assert_eq!(absorbed.share_of(100), 0);
        let (mut written, mut arrived) = (0, 0);
        let mut write = |share: u64| {
            for _ in 0..400 {
                (written, arrived) = (written + 1000, arrived + 10 * share);
                absorbed.look(written, arrived, 1000);
            }
            absorbed.share_of(100)
        };
        assert!(write(96) < 15);
        assert_eq!(write(50), 100);
        let between = write(78);
        assert!((30..70).contains(&between), "{between}");
        assert_eq!(write(100), 0);
        // Bytes that are put down twice, and those that were there before an opening.
        assert_eq!(write(300), 0);
    }

    /// What comes down comes in bursts. Levels that were sized by each of them would have too much at once.
    #[test]
    fn bursts_change_little_and_nothing_at_once() {
        let absorbed = Absorbed::default();
        let (mut written, mut arrived) = (0, 0);
        let mut shares = Vec::new();
        for n in 0..800u64 {
            // Eight tenths on average: much of it in every eighth look.
            let came = if n % 8 == 7 { 4300 } else { 300 };
            (written, arrived) = (written + 1000, arrived + came);
            absorbed.look(written, arrived, 1000);
            shares.push(absorbed.share_of(100));
        }
        let last = &shares[400..];
        let (least, most) = (last.iter().min().unwrap(), last.iter().max().unwrap());
        assert!(
            *least > 40 && *most < 75 && most - least < 25,
            "{least} to {most}"
        );
        // Then all comes down.
        let mut before = absorbed.share_of(100);
        while before > 0 {
            (written, arrived) = (written + 1000, arrived + 100_000);
            absorbed.look(written, arrived, 1000);
            let now = absorbed.share_of(100);
            assert!(now < before && before - now < 6, "{before}, then {now}");
            before = now;
        }
    }

    #[test]
    fn little_says_nothing() {
        let absorbed = Absorbed::default();
        for n in 1..100 {
            absorbed.look(n, 0, 1000);
        }
        assert_eq!(absorbed.share_of(100), 0);
    }
}
