//! Numbers of bytes and of things as people write them.

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

/// Reads `512MiB`, `1GiB`, `64k` or `1073741824`. All units are powers of two, as for memory.
pub fn parse_size(text: &str) -> Result<Size, String> {
    let wrong = || format!("{text} is not a number of bytes such as 512MiB, 1GiB or 1073741824");
    let at = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'));
    let (digits, unit) = text.split_at(at.unwrap_or(text.len()));
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(wrong()),
    };
    let digits = digits.replace('_', "");
    if let Ok(whole) = digits.parse::<u64>() {
        let bytes = whole
            .checked_mul(1 << shift)
            .filter(|&bytes| i64::try_from(bytes).is_ok());
        return bytes.map(Size).ok_or_else(wrong);
    }
    let number: f64 = digits.parse().map_err(|_| wrong())?;
    let bytes = number * (1u64 << shift) as f64;
    // Below 2^63 like the whole numbers above: files have no larger sizes.
    if bytes.is_finite() && (0.0..9e18).contains(&bytes) {
        Ok(Size(bytes as u64))
    } else {
        Err(wrong())
    }
}

/// A number that may have a decimal unit: 10M, 500k.
pub fn parse_count(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.find(|c: char| c.is_ascii_alphabetic()) {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    let factor = match unit {
        "" => 1,
        "k" | "K" => 1_000,
        "M" | "m" => 1_000_000,
        "G" | "g" => 1_000_000_000,
        _ => return Err(format!("{unit} is not a unit; use k, M or G")),
    };
    let number: u64 = digits
        .replace('_', "")
        .parse()
        .map_err(|_| format!("{text} is not a whole number such as 10000000, 500k or 10M"))?;
    number
        .checked_mul(factor)
        .ok_or_else(|| format!("{text} is too large"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_powers_of_two() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("16KiB", 16384),
            ("16k", 16384),
            ("1.5 GiB", 3 << 29),
            ("512MiB", 1 << 29),
            ("1_000", 1000),
        ] {
            assert_eq!(parse_size(text), Ok(Size(bytes)), "{text}");
        }
        for bad in [
            "",
            "MiB",
            "1.2.3",
            "-1",
            "5 apples",
            "99999999999999999999",
            "9999999TiB",
            ".",
        ] {
            assert!(parse_size(bad).unwrap_err().contains("512MiB"), "{bad}");
        }
    }

    #[test]
    fn counts_have_units() {
        assert_eq!(parse_count("10M"), Ok(10_000_000));
        assert_eq!(parse_count("5_000"), Ok(5_000));
        assert_eq!(parse_count("7k"), Ok(7_000));
        for bad in ["", "k", "1.5M", "-3", "3x", "99999999999G"] {
            assert!(parse_count(bad).is_err(), "{bad}");
        }
    }
}
