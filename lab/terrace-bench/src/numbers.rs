//! Numbers for people.

/// A number with four digits and a unit: `1.234 M`.
pub fn count(n: f64) -> String {
    let (scaled, unit) = match n.abs() {
        x if x >= 1e9 => (n / 1e9, " G"),
        x if x >= 1e6 => (n / 1e6, " M"),
        x if x >= 1e4 => (n / 1e3, " k"),
        _ => (n, ""),
    };
    if unit.is_empty() && scaled.fract() == 0.0 {
        return format!("{scaled}");
    }
    let digits = match scaled.abs() {
        x if x >= 1000.0 => 0,
        x if x >= 100.0 => 1,
        x if x >= 10.0 => 2,
        _ => 3,
    };
    format!("{scaled:.digits$}{unit}")
}

/// Bytes in powers of two: `512 MiB`.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut scaled = n as f64;
    let mut unit = 0;
    while scaled >= 1024.0 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    let digits = if scaled.fract() < 0.005 {
        0
    } else {
        usize::from(unit > 0)
    };
    format!("{scaled:.digits$} {}", UNITS[unit])
}

/// Nanoseconds in the unit that suits them: `1.20 ms`.
pub fn time(ns: u64) -> String {
    let n = ns as f64;
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} µs", n / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", n / 1e6),
        _ => format!("{:.2} s", n / 1e9),
    }
}

/// A ratio with three digits that count.
pub fn ratio(x: f64) -> String {
    match x.abs() {
        0.0 => "0".into(),
        a if a < 0.0001 => format!("{x:.1e}"),
        a if a < 1.0 => format!("{x:.4}"),
        a if a < 100.0 => format!("{x:.2}"),
        _ => format!("{x:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!(count(0.0), "0");
        assert_eq!(count(1000.0), "1000");
        assert_eq!(count(10_000_000.0), "10.00 M");
        assert_eq!(count(345_678.0), "345.7 k");
        assert_eq!(bytes(1 << 29), "512 MiB");
        assert_eq!(bytes(1_288_490_189), "1.2 GiB");
        assert_eq!(bytes(100), "100 B");
        assert_eq!(time(999), "999 ns");
        assert_eq!(time(1_500_000), "1.50 ms");
        assert_eq!(ratio(0.1183), "0.1183");
        assert_eq!(ratio(0.0), "0");
    }
}
