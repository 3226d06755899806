//! How long a gentle checkpoint leaves the device to others after each of its writes.
//!
//! Half of the time is not enough: a device that does something else half of the time gives readers
//! half of their reads. So a checkpoint that nothing presses writes little at a time, at a rate that is
//! small for any device that a database of that size is kept on, and is pressed, step by step, by what
//! grows until it is done: what is saved for the cut, the space that the last image holds, and what the
//! caller knows of (the log, or that a caller waits).

use std::time::{Duration, Instant};

/// Bytes that a gentle checkpoint writes in a second if nothing presses: a few parts in a hundred of what
/// a solid-state disk does, and half a gigabyte of hot pages in half a minute.
pub(crate) const GENTLE_BYTES_PER_SECOND: u64 = 16 << 20;
/// With more to write than this takes this many seconds for, it writes faster: what is not logged is durable
/// only after it, and the log and space of the time before are held as long.
const LONGEST_SECONDS: u64 = 60;
/// Bytes that it writes at once: a reader waits for no more of them.
const GENTLE_WRITE_BYTES: u64 = 64 << 10;
/// Past this pressure not even as long as a write took is paused.
const BREATHLESS: f64 = 0.75;
/// The most that a sparing one is pressed by what is saved for it: promotions are no reason to have the device alone.
pub(crate) const SPARING_PRESSURE: f64 = 0.74;
/// By the time that what the caller knows of has come so far towards its limit the checkpoint is to be done.
pub(crate) const AIM: f64 = 0.95;
/// It takes so long until it can be told how fast that comes.
const SETTLED: Duration = Duration::from_millis(100);

/// How fast a checkpoint writes.
#[derive(Clone, Copy)]
pub enum Pace<'a> {
    /// So slowly that others hardly notice, as long as nothing presses. The function tells how far that
    /// which the caller knows of, and which grows from the cut on, has come towards its limit: 0 is
    /// nothing, and the checkpoint writes so fast that it is done a little before 1, then as fast as it
    /// can.
    Gentle(&'a dyn Fn() -> f64),
    /// As gently, but hardly anything is saved for it, so that hot pages keep their frames: where that is too much
    /// already, who only moves records up does without, and it writes faster, up to half of the time. For one that is
    /// made while hardly anything else is written.
    Sparing(&'a dyn Fn() -> f64),
    /// As fast as it can: at close, and when a caller waits for it.
    Fast,
}

impl Pace<'_> {
    /// Pages to write at once.
    pub(crate) fn batch(self, most: usize, page_bytes: usize) -> usize {
        match self {
            Pace::Gentle(_) | Pace::Sparing(_) => {
                (GENTLE_WRITE_BYTES as usize / page_bytes).clamp(1, most)
            }
            Pace::Fast => most,
        }
    }

    /// Whether hardly anything is to be saved for it.
    pub(crate) fn is_sparing(&self) -> bool {
        matches!(self, Pace::Sparing(_))
    }
}

/// What the checkpoint that is being made has before it.
pub(crate) struct Plan {
    begun: Instant,
    /// Bytes that it writes in a second if nothing presses.
    rate: u64,
}

impl Plan {
    /// For one that begins now, with `bytes` bytes to write.
    pub fn new(bytes: u64) -> Plan {
        Plan {
            begun: Instant::now(),
            rate: GENTLE_BYTES_PER_SECOND.max(bytes / LONGEST_SECONDS),
        }
    }

    /// How long to pause after a write of `bytes` bytes that took as long as `took`, under this pressure, with `left`
    /// bytes to go when what the caller knows of has come to `used` of its limit.
    pub fn pause(
        &self,
        (bytes, took): (u64, Duration),
        pressure: f64,
        (left, used): (u64, f64),
    ) -> Duration {
        let needed = needed(left, used, self.begun.elapsed());
        pause(bytes, took, self.rate, pressure, needed)
    }
}

/// Bytes a second so that `left` bytes are written by the time that what has come to `used` of its limit
/// within `elapsed` has come to [`AIM`]: infinite if it has. The same all the time if it grows evenly.
fn needed(left: u64, used: f64, elapsed: Duration) -> f64 {
    if used <= 0.0 {
        return 0.0;
    }
    let time_left = elapsed.max(SETTLED).as_secs_f64() * (AIM - used).max(0.0) / used;
    left as f64 / time_left
}

/// Bytes a second under a pressure that grows no more when enough is written: with the square of what is
/// left to the limit, so that it finds the place where that is so.
fn pressed(rate: u64, pressure: f64) -> f64 {
    let left = (1.0 - pressure).clamp(0.0, 1.0);
    rate as f64 / (left * left)
}

/// How long to pause after a write of `bytes` bytes that took as long as `took`, under this pressure, if `needed` bytes
/// a second are needed. Up to three quarters of the limit of what presses others have the device half of
/// the time in any case, and a fifth if it is a plan that asks for more.
fn pause(bytes: u64, took: Duration, rate: u64, pressure: f64, needed: f64) -> Duration {
    let pressed = pressed(rate, pressure);
    let planned = Duration::from_secs_f64(bytes as f64 / pressed.max(needed)).saturating_sub(took);
    let least = match pressure < BREATHLESS {
        true if pressed < needed => took / 4,
        true => took,
        false => Duration::ZERO,
    };
    planned.max(least)
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const SECOND: Duration = Duration::from_secs(1);
    const RATE: u64 = GENTLE_BYTES_PER_SECOND;

    #[test]
    fn a_large_checkpoint_takes_a_minute() {
        assert_eq!(Plan::new(0).rate, GENTLE_BYTES_PER_SECOND);
        assert_eq!(Plan::new(512 << 20).rate, GENTLE_BYTES_PER_SECOND);
        let bytes = 40 << 30;
        assert!(bytes / Plan::new(bytes).rate <= LONGEST_SECONDS);
    }

    #[test]
    fn nothing_presses_and_the_rate_is_kept() {
        let pause = pause(RATE / 128, MS, RATE, 0.0, 0.0);
        assert_eq!(pause + MS, SECOND / 128);
    }

    #[test]
    fn a_slow_device_is_left_to_others_half_of_the_time() {
        assert_eq!(pause(RATE / 100, 50 * MS, RATE, 0.0, 0.0), 50 * MS);
        assert_eq!(pause(1, 5 * MS, RATE, BREATHLESS - 0.01, 0.0), 5 * MS);
        // And a fifth of it where the log grows faster than that.
        assert_eq!(pause(1, 5 * MS, RATE, 0.0, 1e12), 5 * MS / 4);
    }

    #[test]
    fn pressure_shortens_pauses_until_there_are_none() {
        let bytes = RATE / 10;
        let pauses = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 7.0].map(|p| pause(bytes, MS, RATE, p, 0.0));
        assert!(pauses[..5].windows(2).all(|w| w[1] < w[0]), "{pauses:?}");
        assert_eq!(pauses[5..], [Duration::ZERO; 2]);
        assert_eq!(pause(bytes, 50 * MS, RATE, BREATHLESS, 0.0), Duration::ZERO);
    }

    #[test]
    fn a_checkpoint_is_done_evenly_a_little_before_the_log_is_at_its_limit() {
        // The log grows by a hundredth of what it may a second: there are 95 seconds for it.
        let all = 95 << 20;
        let mut left = all;
        for second in 1..95 {
            let used = f64::from(second) / 100.0;
            let rate = needed(left, used, SECOND * second);
            // What was not written in the first second is spread over the others.
            let even = f64::from(1 << 20) * 95.0 / 94.0;
            assert!((rate / even - 1.0).abs() < 0.01, "{rate} after {second} s");
            left -= rate as u64;
        }
        assert!(left < all / 50, "{left} left");
        assert_eq!(needed(1, AIM, SECOND), f64::INFINITY);
        assert_eq!(needed(1, 0.0, SECOND), 0.0);
        // The first bytes of log say nothing yet.
        assert!(needed(all, 0.001, Duration::ZERO) <= all as f64 / 9.0);
    }
}
