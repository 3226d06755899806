//! Numbers as Redis reads and writes them.

/// A whole number, if the text is one as Redis takes it: no spaces, no plus, no leading zeros.
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    match digits {
        [b'0'] => return (!negative).then_some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    let mut number: u64 = 0;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        number = number * 10 + u64::from(digit - b'0');
    }
    match negative {
        true if number <= 1 << 63 => Some((number as i64).wrapping_neg()),
        false => i64::try_from(number).ok(),
        true => None,
    }
}

/// A whole number without sign.
pub fn parse_u64(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 20 || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// A floating-point number; none for what is no number, or is too large or too small for one.
pub fn parse_f64(text: &[u8]) -> Option<f64> {
    let number = parse_f64_loosely(text)?;
    let digits = text.split(|b| b"eEpP".contains(b)).next()?;
    let is_hex = digits.iter().any(|b| b"xX".contains(b));
    let is_other = match number {
        // What is infinite says so.
        _ if number.is_infinite() => is_hex || !digits.iter().any(|b| b"nN".contains(b)),
        0.0 if is_hex => digits.iter().any(|b| b.is_ascii_hexdigit() && *b != b'0'),
        0.0 => digits.iter().any(|b| (b'1'..=b'9').contains(b)),
        _ => false,
    };
    (!is_other).then_some(number)
}

/// A floating-point number, infinite or zero where it is too large or too small for one; none for what is no number.
pub fn parse_f64_loosely(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    let (sign, rest) = match text.as_bytes().first()? {
        b'-' => (-1.0, &text[1..]),
        b'+' => (1.0, &text[1..]),
        _ => (1.0, text),
    };
    if let Some(digits) = rest.strip_prefix("0x").or(rest.strip_prefix("0X")) {
        return Some(sign * hexadecimal(digits)?);
    }
    // Rust takes more spellings of infinity than C in no case; both take any case.
    let number: f64 = text.parse().ok()?;
    (!number.is_nan()).then_some(number)
}

/// A number in hexadecimal digits as C takes it, with a point and an exponent of two if it has them.
fn hexadecimal(text: &str) -> Option<f64> {
    let (digits, exponent) = match text.split_once(['p', 'P']) {
        Some((digits, exponent)) => (digits, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, decimals) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.len() + decimals.len() == 0 {
        return None;
    }
    let (mut number, mut shift) = (0u64, exponent.saturating_sub(4 * decimals.len() as i32));
    for digit in whole.bytes().chain(decimals.bytes()) {
        let digit = u64::from(char::from(digit).to_digit(16)?);
        if number >> 56 == 0 {
            number = number << 4 | digit;
        } else {
            // Behind those that count: whether there is anything decides how it is rounded.
            number |= u64::from(digit != 0);
            shift = shift.saturating_add(4);
        }
    }
    // In two steps: the power alone may be out of range where the number is not.
    let half = shift / 2;
    Some(number as f64 * 2f64.powi(half) * 2f64.powi(shift - half))
}

/// As C's `%.17g` writes it, which is what Redis answers for scores.
pub fn format_f64(number: f64) -> String {
    if number.is_nan() {
        return "nan".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    if number == number.trunc() && number.abs() < 1e15 {
        if number == 0.0 && number.is_sign_negative() {
            return "-0".to_owned();
        }
        return (number as i64).to_string();
    }
    general(number, 17)
}

/// As C's `%g` writes a finite number with this many digits.
pub fn general(number: f64, digits: usize) -> String {
    let scientific = format!("{number:.0$e}", digits - 1);
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..digits as i32).contains(&exponent) {
        let decimals = (digits as i32 - 1 - exponent).max(0) as usize;
        return trimmed(&format!("{number:.decimals$}")).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs())
}

/// Without zeros at the end of the decimals.
fn trimmed(number: &str) -> &str {
    match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    }
}

/// Decimals of [`add_decimals`]: those that Redis writes.
const DECIMALS: u32 = 17;

/// The sum of two numbers as `INCRBYFLOAT` writes it: added in decimals and rounded to 64 bits; as doubles beyond.
/// None if it is infinite or no number.
pub fn add_decimals(a: &[u8], b: &[u8]) -> Option<String> {
    if let (Some(a), Some(b)) = (fixed(a), fixed(b))
        && let Some(sum) = a.checked_add(b)
    {
        let sum = rounded(sum);
        let unit = 10i128.pow(DECIMALS);
        let (whole, rest) = ((sum / unit).abs(), (sum % unit).unsigned_abs());
        let sign = if sum < 0 { "-" } else { "" };
        let text = format!("{sign}{whole}.{rest:017}");
        return Some(trimmed(&text).to_owned());
    }
    let sum = parse_f64_loosely(a)? + parse_f64_loosely(b)?;
    if !sum.is_finite() {
        return None;
    }
    Some(trimmed(&format!("{sum:.17}")).to_owned())
}

/// A number in units of the last decimal as it is when it has 64 bits, which Redis computes with. Below 128 all
/// decimals fit.
fn rounded(number: i128) -> i128 {
    let unit = 10u128.pow(DECIMALS);
    let whole = number.unsigned_abs() / unit;
    let bits = u128::BITS - whole.leading_zeros();
    if whole < 128 || bits > 64 {
        return number;
    }
    let shift = 64 - bits;
    let half_even = |n: u128, d: u128| {
        let (q, r) = (n / d, n % d);
        q + u128::from(r * 2 > d || (r * 2 == d && q % 2 == 1))
    };
    let mantissa = half_even(number.unsigned_abs() << shift, unit);
    let back = half_even(mantissa * unit, 1 << shift) as i128;
    if number < 0 { -back } else { back }
}

/// A number in units of the last decimal.
fn fixed(text: &[u8]) -> Option<i128> {
    let text = std::str::from_utf8(text).ok()?;
    let (negative, text) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, decimals) = digits.split_once('.').unwrap_or((digits, ""));
    let all = [whole, decimals].concat();
    if all.is_empty() || all.len() > 36 || !all.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    // How many digits are to be added behind all of these.
    let exponent: i32 = exponent.parse().ok()?;
    let shift = (DECIMALS as i32)
        .checked_sub(decimals.len() as i32)?
        .checked_add(exponent)?;
    let number: i128 = all.parse().ok()?;
    let number = number.checked_mul(10i128.checked_pow(u32::try_from(shift).ok()?)?)?;
    Some(if negative { -number } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_strict() {
        for good in [
            "0",
            "1",
            "-1",
            "9223372036854775807",
            "-9223372036854775808",
        ] {
            assert_eq!(parse_i64(good.as_bytes()), Some(good.parse().unwrap()));
        }
        for bad in [
            "",
            "-",
            "+1",
            " 1",
            "1 ",
            "01",
            "-0",
            "00",
            "1.0",
            "1e3",
            "9223372036854775808",
            "-9223372036854775809",
            "99999999999999999999",
        ] {
            assert_eq!(parse_i64(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn floating_point_numbers_are_within_range() {
        let parse = |text: &str| parse_f64(text.as_bytes());
        for (text, number) in [
            ("0x10", 16.0),
            ("-0X.8", -0.5),
            ("0x1p3", 8.0),
            ("0x1.8P-1", 0.75),
            ("0x00000000000000000000000000000001", 1.0),
            (
                "0x1fffffffffffff8000000000",
                9_007_199_254_740_992.0 * 1_099_511_627_776.0,
            ),
            ("+inf", f64::INFINITY),
            ("-Infinity", f64::NEG_INFINITY),
            ("0e-500", 0.0),
            ("0x0p-5", 0.0),
            ("1e-310", 1e-310),
        ] {
            assert_eq!(parse(text), Some(number), "{text}");
        }
        for text in [
            "1e400",
            "-1e400",
            "1e-400",
            "0x1p2000",
            "0x1p-2000",
            "0x",
            "0xg",
            "-0x",
            "nan",
            "",
            " 1",
            "1e",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse_f64_loosely(b"1e400"), Some(f64::INFINITY));
        assert_eq!(parse_f64_loosely(b"1e-400"), Some(0.0));
    }

    #[test]
    fn scores_are_written_with_seventeen_digits() {
        for (number, text) in [
            (0.1, "0.10000000000000001"),
            (3.0, "3"),
            (-2.5, "-2.5"),
            (1e17, "1e+17"),
            (1e-5, "1.0000000000000001e-05"),
            (123456789012345680.0, "1.2345678901234568e+17"),
            (f64::INFINITY, "inf"),
            (-0.0, "-0"),
            (1e20, "1e+20"),
            (12345678901234567.0, "12345678901234568"),
        ] {
            assert_eq!(format_f64(number), text);
        }
    }

    #[test]
    fn decimals_are_added_as_they_are_written() {
        let add = |a: &str, b: &str| add_decimals(a.as_bytes(), b.as_bytes());
        assert_eq!(add("10.50", "0.1").as_deref(), Some("10.6"));
        assert_eq!(add("0.1", "0.2").as_deref(), Some("0.3"));
        assert_eq!(add("5", "-5").as_deref(), Some("0"));
        assert_eq!(add("-0.5", "0.25").as_deref(), Some("-0.25"));
        assert_eq!(add("5.0e3", "2.0e2").as_deref(), Some("5200"));
        assert_eq!(
            add("9223372036854775807", "1e3").as_deref(),
            Some("9223372036854776807")
        );
        assert_eq!(
            add("9223372036854775807", "7.125").as_deref(),
            Some("9223372036854775814")
        );
        assert_eq!(add("1.5e-3", "0").as_deref(), Some("0.0015"));
        assert_eq!(add("1", "inf"), None);
        assert_eq!(add("x", "1"), None);
    }
}
