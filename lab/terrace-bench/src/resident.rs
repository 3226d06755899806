//! How much memory this process really has, how long it was on a processor, and what it read and wrote: what the
//! kernel says, not what a library believes.

use std::fs;

/// Resident memory now, in bytes; `None` where there is no `/proc`.
pub fn now() -> Option<u64> {
    field("VmRSS:")
}

/// The most resident memory since the process began, or since [`reset_peak`].
pub fn peak() -> Option<u64> {
    field("VmHWM:")
}

/// Lets [`peak`] begin anew, so that what was used before a store is opened does not count.
/// Returns whether the kernel did it.
pub fn reset_peak() -> bool {
    fs::write("/proc/self/clear_refs", "5").is_ok()
}

/// How long all threads of this process were on a processor so far, in microseconds; `None` where there is no
/// `/proc`. In steps of ten milliseconds.
pub fn processor_us() -> Option<u64> {
    parse_stat(&fs::read_to_string("/proc/self/stat").ok()?)
}

/// Bytes that this process had read from devices and written to them so far, also those that only its cache in the
/// operating system asked for; `None` where there is no `/proc`. Devices that are memory count nothing.
pub fn device_bytes() -> Option<[u64; 2]> {
    parse_io(&fs::read_to_string("/proc/self/io").ok()?)
}

fn parse_io(io: &str) -> Option<[u64; 2]> {
    let field = |name| {
        let value = io.lines().find_map(|line| line.strip_prefix(name))?;
        value.trim().parse().ok()
    };
    Some([field("read_bytes:")?, field("write_bytes:")?])
}

/// A tick of the figures in `/proc/self/stat`: the kernel says a hundredth of a second to every process.
const TICK_US: u64 = 10_000;

fn parse_stat(stat: &str) -> Option<u64> {
    // The name of the program may have spaces and brackets.
    let (_, behind) = stat.rsplit_once(')')?;
    // Behind it the state is the third field; user and system time are the fourteenth and fifteenth.
    let mut times = behind.split_ascii_whitespace().skip(11);
    let (user, system) = (times.next()?, times.next()?);
    let ticks = user
        .parse::<u64>()
        .ok()?
        .checked_add(system.parse().ok()?)?;
    ticks.checked_mul(TICK_US)
}

fn field(name: &str) -> Option<u64> {
    parse(&fs::read_to_string("/proc/self/status").ok()?, name)
}

fn parse(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_lines_of_the_kernel() {
        let status = "Name:\tx\nVmHWM:\t   2048 kB\nVmRSS:\t     12 kB\n";
        assert_eq!(parse(status, "VmRSS:"), Some(12 * 1024));
        assert_eq!(parse(status, "VmHWM:"), Some(2048 * 1024));
        assert_eq!(parse(status, "VmSwap:"), None);
        assert_eq!(parse("VmRSS:\tmuch kB\n", "VmRSS:"), None);
    }

    #[test]
    fn reads_the_bytes_of_the_kernel() {
        let io = "rchar: 9\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 5\n";
        assert_eq!(parse_io(io), Some([4096, 8192]));
        assert_eq!(parse_io("read_bytes: 4096\n"), None);
    }

    #[test]
    fn reads_the_times_of_the_kernel() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 4";
        assert_eq!(parse_stat(stat), Some(3_000_000));
        assert_eq!(parse_stat("7 (short) S 1"), None);
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn sees_memory_come_and_the_peak_stay() {
        let before = now().unwrap();
        let block = vec![1u8; 64 << 20];
        assert!(std::hint::black_box(&block)[1 << 20] == 1);
        assert!(now().unwrap() >= before + (60 << 20));
        drop(block);
        assert!(peak().unwrap() >= before + (60 << 20));
    }
}
