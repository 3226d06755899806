//! When promotion is worth while (the paper's adaptive migration control), as a function of what was seen.
//!
//! Benefit f = share of lookups that read a page + mean depth over levels, a sample each period; a = mean of
//! the last samples, b = the last of these means. Promotion ends when the slope of b is small, and begins when
//! it is large, or when b has come back to what it was. The slope is the change over the whole window.

use std::collections::VecDeque;

/// The constants of the control.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Law {
    /// Samples in the window.
    pub window: usize,
    /// Samples from one decision to the next.
    pub every: u64,
    /// Slope, either way, below which promotion ends: TH_L.
    pub low: f64,
    /// Slope, either way, above which it begins: TH_H.
    pub high: f64,
    /// The published code's second condition: it begins, too, once the benefit is no less than that at which it
    /// ended divided by this. `None` without.
    pub returned: Option<f64>,
}

impl Default for Law {
    fn default() -> Law {
        Law {
            window: 100,
            every: 15,
            low: 0.01,
            high: 0.1,
            returned: Some(0.9),
        }
    }
}

/// What a decision came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Promotion ends.
    Off,
    /// It begins.
    On,
}

/// Decides when promotion is worth while. It begins with promotion on.
#[derive(Debug, Default)]
pub struct Control {
    law: Law,
    samples: u64,
    seen: VecDeque<f64>,
    means: VecDeque<f64>,
    /// The mean at which promotion ended; `None` while it is on.
    ended_at: Option<f64>,
    /// Promotions since it began.
    promoted: u64,
}

fn push(window: &mut VecDeque<f64>, value: f64, most: usize) {
    window.push_back(value);
    if window.len() > most {
        window.pop_front();
    }
}

fn mean(of: &VecDeque<f64>) -> f64 {
    of.iter().sum::<f64>() / of.len().max(1) as f64
}

/// Slope of the line through the values nearest to them, over x from 0 to 1.
fn slope(of: &VecDeque<f64>) -> f64 {
    let x = |i: usize| (i + 1) as f64 / of.len() as f64;
    let mean_x = (0..of.len()).map(x).sum::<f64>() / of.len() as f64;
    let mean_y = mean(of);
    let values = of.iter().enumerate().map(|(i, y)| (x(i) - mean_x, y));
    let (mut along, mut across) = (0.0, 0.0);
    for (x, y) in values {
        along += x * (y - mean_y);
        across += x * x;
    }
    along / across
}

impl Control {
    /// One by this law.
    pub fn new(law: Law) -> Control {
        Control {
            law,
            ..Control::default()
        }
    }

    /// Whether records are to be promoted.
    pub fn is_on(&self) -> bool {
        self.ended_at.is_none()
    }

    /// A period has passed: the benefit in it, and how many records were promoted. Promotion does not end
    /// before `least` have been.
    pub fn sample(
        &mut self,
        benefit: f64,
        promoted: u64,
        least: impl FnOnce() -> u64,
    ) -> Option<Decision> {
        let law = self.law;
        let number = self.samples;
        self.samples += 1;
        if self.is_on() {
            self.promoted += promoted;
        }
        push(&mut self.seen, benefit, law.window);
        push(&mut self.means, mean(&self.seen), law.window);
        if self.means.len() < law.window || !number.is_multiple_of(law.every) {
            return None;
        }
        let slope = slope(&self.means);
        let now = *self.means.back()?;
        match self.ended_at {
            None if slope.abs() < law.low && self.promoted >= least() => {
                self.ended_at = Some(now);
                Some(Decision::Off)
            }
            Some(ended_at)
                if slope.abs() > law.high || law.returned.is_some_and(|r| now >= ended_at / r) =>
            {
                self.ended_at = None;
                self.promoted = 0;
                Some(Decision::On)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_base::checksum::mix;

    /// What the control does, and when, over a benefit of each second, and promotions.
    fn turns(
        law: Law,
        least: u64,
        seconds: u64,
        course: impl Fn(f64) -> f64,
        promoted: impl Fn(u64) -> u64,
    ) -> Vec<(u64, Decision)> {
        let mut control = Control::new(law);
        let mut turns = Vec::new();
        for t in 0..seconds {
            let turn = control.sample(course(t as f64), promoted(t), || least);
            turns.extend(turn.map(|turn| (t, turn)));
        }
        turns
    }

    /// A number of the normal distribution, nearly.
    fn gauss(seed: u64, t: u64) -> f64 {
        let part = |n| mix(mix(seed, t), n) as f64 / 2_f64.powi(64);
        (0..12).map(part).sum::<f64>() - 6.0
    }

    fn law(second: bool) -> Law {
        Law {
            returned: second.then_some(0.9),
            ..Law::default()
        }
    }

    /// A benefit that falls to a plateau, and a shift after 1200 s that raises it by `height`.
    fn shifted(height: f64) -> impl Fn(f64) -> f64 {
        move |t| {
            if t < 1200.0 {
                0.34 + 0.3 * (-t / 150.0_f64).exp()
            } else {
                0.34 + height * (-(t - 1200.0) / 200.0).exp()
            }
        }
    }

    /// Without noise the figures of `control.py` in the design's models are reproduced to the second.
    #[test]
    fn a_shift_is_seen_when_the_model_sees_it() {
        let seen = |height, second| turns(law(second), 0, 2400, shifted(height), |_| 0);
        use Decision::{Off, On};
        assert_eq!(seen(0.05, false), [(555, Off)]);
        assert_eq!(seen(0.05, true), [(555, Off)]);
        assert_eq!(seen(0.1, false), [(555, Off)]);
        assert_eq!(seen(0.1, true), [(555, Off), (1260, On), (1365, Off)]);
        assert_eq!(seen(0.15, false), [(555, Off), (1275, On), (1710, Off)]);
        assert_eq!(seen(0.15, true), [(555, Off), (1245, On), (1710, Off)]);
        assert_eq!(seen(0.3, false), [(555, Off), (1245, On), (1845, Off)]);
        assert_eq!(seen(0.3, true), [(555, Off), (1230, On), (1845, Off)]);
    }

    /// Waves as merging makes, and noise: nothing flaps while nothing changes, and the shift is seen.
    #[test]
    fn noise_makes_nothing_flap() {
        for seed in 0..20 {
            let noise: Vec<f64> = (0..2400).map(|t| 0.01 * gauss(seed, t)).collect();
            let wave = |t: f64| if t % 90.0 < 12.0 { 0.1 } else { 0.0 };
            let course = |t: f64| shifted(0.3)(t) + noise[t as usize] + wave(t);
            let seen = turns(law(true), 0, 2400, course, |_| 0);
            let [
                (off, Decision::Off),
                (on, Decision::On),
                (again, Decision::Off),
            ] = seen[..]
            else {
                panic!("{seed}: {seen:?}");
            };
            // Within two windows of the plateau, which begins after some 450 s, and of the shift.
            assert!((400..=650).contains(&off), "{seed}: {seen:?}");
            assert!((1200..=1400).contains(&on), "{seed}: {seen:?}");
            assert!(again <= 2100, "{seed}: {seen:?}");
            // Twenty windows of noise alone.
            let still = |t: f64| 0.4 + noise[t as usize] + wave(t);
            let seen = turns(law(true), 0, 2000, still, |_| 0);
            assert!(matches!(seen[..], [(_, Decision::Off)]), "{seed}: {seen:?}");
        }
    }

    /// Promotion does not end before the working set has come in.
    #[test]
    fn so_many_are_promoted_first() {
        let seen = |least| turns(law(true), least, 2000, |_| 0.4, |_| 10);
        assert_eq!(seen(0), [(105, Decision::Off)]);
        assert_eq!(seen(10_000), [(1005, Decision::Off)]);
        assert_eq!(seen(30_000), []);
        // What was promoted before it ended does not count for the next time: the top of a bump has no slope.
        let bump = |t: f64| if t < 600.0 { 0.3 } else { 0.6 };
        let seen = turns(law(true), 1000, 2000, bump, |_| 5);
        let [(_, Decision::Off), (on, Decision::On), (off, Decision::Off)] = seen[..] else {
            panic!("{seen:?}");
        };
        assert!(on > 600 && off >= on + 199, "{seen:?}");
    }
}
