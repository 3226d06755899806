//! The commands: each an experiment.

pub mod beyond;
pub mod in_memory;
mod plot;
pub mod rows;
pub mod single;
pub mod tables;

/// Pages of 16 KiB that the device is said to serve in a second, where a rate is calculated from what was counted.
pub const DEVICE_PAGES: f64 = 20_000.0;
/// The bytes of such a page.
pub const PAGE: f64 = 16384.0;

/// Operations a second on a device that serves this many pages in a second, calculated: the processors' rate, or
/// the device's share where that is less. Reads and writes cost the device the same.
pub fn on_device(rate: f64, operations: f64, bytes: f64) -> f64 {
    let pages = bytes / PAGE;
    if pages > 0.0 {
        rate.min(DEVICE_PAGES * operations / pages)
    } else {
        rate
    }
}
