//! The course of a run: a curve of windows, the worst tenth of a second, the most memory.

use serde::Serialize;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::target::Counters;

/// The part of a run that a window belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The records are written for the first time.
    Load,
    /// Operations run, but do not count yet.
    Warmup,
    /// Operations count.
    Measure,
    /// Operations count, and the hot set has moved.
    Moved,
}

/// One point of the curve.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Window {
    /// What was going on.
    pub part: Part,
    /// When the window ended, in seconds since the first operation of the benchmark.
    pub at: f64,
    /// How long it was.
    pub seconds: f64,
    /// Operations completed in it.
    pub ops: u64,
    /// Pages read in it.
    pub page_reads: u64,
    /// Of them those that were read to let records go from the hot tier.
    pub demotion_reads: u64,
    /// Those that looking what is used has read, and closing pages up.
    pub ageing_reads: u64,
    /// Pages written in it.
    pub page_writes: u64,
    /// Records that moved up in it.
    pub promotions: u64,
    /// Records that moved down in it.
    pub demotions: u64,
    /// Resident memory at its end.
    pub resident_bytes: Option<u64>,
    /// The size of the file that holds the pages, at its end.
    pub data_file_bytes: Option<u64>,
    /// Bytes of the pages in use, at its end.
    pub live_page_bytes: Option<u64>,
    /// Of them bytes of hot pages.
    pub hot_page_bytes: Option<u64>,
    /// Checkpoints completed in it.
    pub checkpoints: u64,
}

impl Window {
    /// Operations per second.
    pub fn ops_per_second(&self) -> f64 {
        self.ops as f64 / self.seconds.max(1e-9)
    }

    /// Page reads per operation.
    pub fn page_reads_per_op(&self) -> f64 {
        self.page_reads as f64 / self.ops.max(1) as f64
    }
}

/// Builds the curve from what the coordinator of a run sees.
#[derive(Debug)]
pub struct Timeline {
    began: Instant,
    /// Where the current window began.
    from: Instant,
    from_ops: u64,
    from_counters: Counters,
    windows: Vec<Window>,
    /// Moments with the number of operations until then, the last tenth of a second and a little.
    recent: VecDeque<(Instant, u64)>,
    worst: Option<f64>,
    sampled_peak: Option<u64>,
}

const TENTH: Duration = Duration::from_millis(100);

impl Timeline {
    /// A timeline that begins now.
    pub fn new(counters: &Counters) -> Self {
        let now = Instant::now();
        Timeline {
            began: now,
            from: now,
            from_ops: 0,
            from_counters: counters.clone(),
            windows: Vec::new(),
            recent: VecDeque::new(),
            worst: None,
            sampled_peak: None,
        }
    }

    /// Notes how many operations there were at a moment, and how much memory.
    pub fn tick(&mut self, now: Instant, ops: u64, resident: Option<u64>) {
        self.sampled_peak = self.sampled_peak.max(resident);
        self.recent.push_back((now, ops));
        // The oldest moment that is at least a tenth of a second ago stays at the front.
        while self
            .recent
            .get(1)
            .is_some_and(|(at, _)| now.duration_since(*at) >= TENTH)
        {
            self.recent.pop_front();
        }
        if let Some(&(at, before)) = self.recent.front() {
            let passed = now.duration_since(at);
            if passed >= TENTH {
                let rate = (ops - before) as f64 / passed.as_secs_f64();
                self.worst = Some(self.worst.map_or(rate, |worst| worst.min(rate)));
            }
        }
    }

    /// How long the window that is open has lasted.
    pub fn open_for(&self, now: Instant) -> Duration {
        now.duration_since(self.from)
    }

    /// Ends the window, and begins the next.
    pub fn close_window(
        &mut self,
        part: Part,
        now: Instant,
        ops: u64,
        counters: &Counters,
        resident: Option<u64>,
    ) -> &Window {
        let new = counters.clone().since(&self.from_counters);
        let window = Window {
            part,
            at: now.duration_since(self.began).as_secs_f64(),
            seconds: now.duration_since(self.from).as_secs_f64(),
            ops: ops - self.from_ops,
            page_reads: new.page_reads,
            demotion_reads: new.demotion_reads,
            ageing_reads: new.ageing_reads,
            page_writes: new.page_writes,
            promotions: new.promotions,
            demotions: new.demotions,
            resident_bytes: resident,
            data_file_bytes: counters.data_file_bytes,
            live_page_bytes: counters.live_page_bytes,
            hot_page_bytes: counters.hot_page_bytes,
            checkpoints: new.checkpoints,
        };
        self.from = now;
        self.from_ops = ops;
        self.from_counters = counters.clone();
        let at = self.windows.len();
        self.windows.push(window);
        &self.windows[at]
    }

    /// Begins a new part: no window and no worst tenth of a second reaches over its beginning.
    pub fn begin_part(&mut self, now: Instant, ops: u64, counters: &Counters) {
        self.from = now;
        self.from_ops = ops;
        self.from_counters = counters.clone();
        self.recent.clear();
        self.recent.push_back((now, ops));
        self.worst = None;
    }

    /// The slowest tenth of a second since the part began, in operations per second; `None` if the
    /// part was shorter than that.
    pub fn worst_tenth(&self) -> Option<f64> {
        self.worst
    }

    /// The most resident memory seen so far.
    pub fn sampled_peak(&self) -> Option<u64> {
        self.sampled_peak
    }

    /// The curve.
    pub fn into_windows(self) -> Vec<Window> {
        self.windows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_tenth_is_found_wherever_it_lies() {
        let mut timeline = Timeline::new(&Counters::default());
        let start = Instant::now();
        timeline.begin_part(start, 0, &Counters::default());
        let mut ops = 0;
        for tick in 1..=200u64 {
            // Ten operations per ten milliseconds; from 0.55 to 0.65 s only one.
            ops += if (56..=65).contains(&tick) { 1 } else { 10 };
            timeline.tick(
                start + Duration::from_millis(10 * tick),
                ops,
                Some(tick * 100),
            );
        }
        let worst = timeline.worst_tenth().unwrap();
        assert!((worst - 100.0).abs() < 1.0, "{worst}");
        assert_eq!(timeline.sampled_peak(), Some(20_000));
        timeline.begin_part(start + Duration::from_secs(2), ops, &Counters::default());
        assert_eq!(timeline.worst_tenth(), None);
    }

    #[test]
    fn windows_hold_differences() {
        let counters = |page_reads| Counters {
            page_reads,
            ..Counters::default()
        };
        let mut timeline = Timeline::new(&counters(5));
        let start = timeline.began;
        let at = |s| start + Duration::from_secs(s);
        timeline.close_window(Part::Load, at(1), 100, &counters(25), None);
        timeline.begin_part(at(4), 130, &counters(30));
        timeline.close_window(Part::Measure, at(6), 230, &counters(80), Some(7));
        let windows = timeline.into_windows();
        assert_eq!(windows.len(), 2);
        assert_eq!((windows[0].ops, windows[0].page_reads), (100, 20));
        assert_eq!((windows[1].ops, windows[1].page_reads), (100, 50));
        assert_eq!(windows[1].ops_per_second(), 50.0);
        assert_eq!(windows[1].page_reads_per_op(), 0.5);
        assert_eq!(windows[1].at, 6.0);
    }
}
