//! A device that is always as fast: a fixed number of requests a second, each with a latency.
//!
//! Whether two tiers are faster than one depends on the disk, and those of shared machines are never
//! twice the same: they have caches of their own, which serve best whoever reads the same pages again and
//! again. A run over files in memory that waits as long as this says gives the same everywhere.
//!
//! The model: requests are served one after the other, each for a time in proportion to its bytes, and
//! none is done before the latency has passed. So a few threads are bound by the latency, many by the
//! rate. There is no cache, no difference between reading and writing, and no fairness: who comes first is
//! served first.

use std::time::Duration;

/// What counts as one request: a page of the default size.
pub const REQUEST_BYTES: u64 = 16 << 10;
/// Fewer bytes take as long as this many.
const LEAST_BYTES: u64 = 4 << 10;
/// Requests a second: from a slow disk to more than one processor asks for.
const RATES: std::ops::RangeInclusive<u32> = 10..=10_000_000;
/// The longest latency: a second is more than any device takes.
const LONGEST_LATENCY: Duration = Duration::from_secs(1);

/// How fast it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// Requests of [`REQUEST_BYTES`] a second.
    pub rate: u32,
    /// The least that a request takes.
    pub latency: Duration,
}

impl Device {
    /// Checks that a device can be like this.
    ///
    /// # Errors
    /// What is wrong, and what is possible.
    pub fn new(rate: u32, latency: Duration) -> Result<Device, String> {
        if !RATES.contains(&rate) {
            return Err(format!(
                "a device serves from {} to {} requests a second, not {rate}",
                RATES.start(),
                RATES.end()
            ));
        }
        if latency > LONGEST_LATENCY {
            return Err(format!(
                "a request takes a second at most, not {} ms",
                latency.as_millis()
            ));
        }
        Ok(Device { rate, latency })
    }

    /// How long it is busy with this many bytes.
    fn service(&self, bytes: u64) -> Duration {
        let nanos = u128::from(bytes.max(LEAST_BYTES)) * 1_000_000_000
            / (u128::from(REQUEST_BYTES) * u128::from(self.rate));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// The requests of a device that are not done. Moments are durations since any beginning.
#[derive(Clone, Copy, Debug, Default)]
pub struct Queue {
    /// When it has served all that came so far.
    free_at: Duration,
}

impl Queue {
    /// Takes a request of this many bytes that comes at `now`; when it is done.
    pub fn take(&mut self, device: Device, now: Duration, bytes: u64) -> Duration {
        self.free_at = self.free_at.max(now) + device.service(bytes);
        self.free_at.max(now + device.latency)
    }

    /// When everything that came before `now` is done, for who has to wait for all of it.
    pub fn flush(&self, device: Device, now: Duration) -> Duration {
        self.free_at.max(now) + device.latency
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn micros(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    fn device() -> Device {
        Device::new(20_000, micros(100)).expect("a device like many")
    }

    #[test]
    fn a_single_request_takes_the_latency_and_many_take_their_turns() {
        let (device, mut queue) = (device(), Queue::default());
        // 50 us each.
        let done: Vec<Duration> = (0..5)
            .map(|_| queue.take(device, micros(1000), REQUEST_BYTES))
            .collect();
        assert_eq!(
            done,
            [1100, 1100, 1150, 1200, 1250].map(micros),
            "the first two are bound by the latency, the others by the rate"
        );
        // An idle device has saved nothing up.
        assert_eq!(
            queue.take(device, micros(5000), REQUEST_BYTES),
            micros(5100)
        );
    }

    #[test]
    fn bytes_count_and_few_of_them_as_a_block() {
        let device = device();
        assert_eq!(device.service(REQUEST_BYTES * 16), micros(800));
        assert_eq!(device.service(4096), Duration::from_nanos(12_500));
        assert_eq!(device.service(1), device.service(4096));
        assert_eq!(device.service(0), device.service(4096));
    }

    #[test]
    fn a_flush_waits_for_everything_before_it() {
        let (device, mut queue) = (device(), Queue::default());
        queue.take(device, micros(0), REQUEST_BYTES * 20);
        assert_eq!(queue.flush(device, micros(10)), micros(1100));
        assert_eq!(queue.flush(device, micros(3000)), micros(3100));
    }

    #[test]
    fn as_many_requests_a_second_are_served_as_it_says() {
        let (device, mut queue) = (device(), Queue::default());
        let last = (0..20_000)
            .map(|_| queue.take(device, micros(0), REQUEST_BYTES))
            .last();
        assert_eq!(last, Some(Duration::from_secs(1)));
    }

    #[test]
    fn no_device_is_like_that() {
        for (rate, latency) in [(0, 1), (9, 1), (u32::MAX, 1), (1000, 1_000_001)] {
            let problem = Device::new(rate, micros(latency)).expect_err("no such device");
            assert!(problem.contains("not"), "{problem}");
        }
    }
}
