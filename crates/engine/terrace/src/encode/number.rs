//! Decimal numbers of any length as bytes that compare as the numbers do.
//!
//! Invariant: equal numbers have equal bytes, however they were written; nothing is rounded.

use super::fixed;

/// What zero begins with; numbers above begin with one more, numbers below with one less.
const NOUGHT: u8 = 0x80;
/// The end of the digits, below each of them.
const END: u8 = 0;

/// A number apart from its sign: `0.d1 d2 d3... * 10^exponent`, with no zero at either end of the digits.
struct Decimal {
    negative: bool,
    exponent: i32,
    digits: Vec<u8>,
}

/// A decimal number in its usual text: `-12.50`, `7`, `1e-3`.
fn parse(text: &str) -> Option<Decimal> {
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mantissa, power) = match rest.split_once(['e', 'E']) {
        Some((mantissa, power)) => (mantissa, power.parse::<i32>().ok()?),
        None => (rest, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    let are_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !are_digits(whole) || !are_digits(fraction) {
        return None;
    }
    let digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
    let Some(first) = digits.iter().position(|&b| b != b'0') else {
        return Some(Decimal {
            negative: false,
            exponent: 0,
            digits: Vec::new(),
        });
    };
    let last = digits.iter().rposition(|&b| b != b'0')?;
    let before_point = i32::try_from(whole.len()).ok()?;
    let exponent = before_point
        .checked_sub(i32::try_from(first).ok()?)?
        .checked_add(power)?;
    Some(Decimal {
        negative,
        exponent,
        digits: digits[first..=last].iter().map(|b| b - b'0').collect(),
    })
}

/// The bytes of a decimal number, given as text: an integer, with a point, with an exponent, as JSON and CSV
/// have them. None for what is no such number. Numbers that are equal have the same bytes (`1.0` and `1`).
/// An index over numbers ([`crate::KeySource::number`]) has them as keys.
///
/// ```
/// use terrace::encode;
/// let number = |text| encode::number(text).unwrap();
/// assert!(number("-3") < number("-2.5") && number("9") < number("10"));
/// assert_eq!(number("1e3"), number("1000.0"));
/// assert_eq!(encode::to_number(&number("12.50")).as_deref(), Some("12.5"));
/// assert_eq!(encode::number("twelve"), None);
/// ```
pub fn number(text: &str) -> Option<Vec<u8>> {
    let decimal = parse(text)?;
    if decimal.digits.is_empty() {
        return Some(vec![NOUGHT]);
    }
    let mut rest = Vec::with_capacity(decimal.digits.len() + 5);
    rest.extend_from_slice(&fixed::i32(decimal.exponent));
    rest.extend(decimal.digits.iter().map(|digit| digit + 1));
    rest.push(END);
    Some(match decimal.negative {
        false => [vec![NOUGHT + 1], rest].concat(),
        true => {
            rest.iter_mut().for_each(|byte| *byte = !*byte);
            [vec![NOUGHT - 1], rest].concat()
        }
    })
}

/// The number of which [`number`](fn@number) made these bytes, as text: without an exponent where it has a few
/// digits only. None if they are not such.
pub fn to_number(bytes: &[u8]) -> Option<String> {
    let (&first, rest) = bytes.split_first()?;
    let (sign, rest) = match first {
        NOUGHT => return rest.is_empty().then(|| "0".to_owned()),
        0x81 => ("", rest.to_vec()),
        0x7F => ("-", rest.iter().map(|byte| !byte).collect()),
        _ => return None,
    };
    let (exponent, digits) = rest.split_at_checked(4)?;
    let exponent = i64::from(fixed::to_i32(exponent)?);
    let (&END, digits) = digits.split_last()? else {
        return None;
    };
    let right = digits.iter().all(|digit| (1..=10).contains(digit));
    if !right || digits.first().is_none_or(|&d| d == 1) || digits.last() == Some(&1) {
        return None;
    }
    let digits: String = digits.iter().map(|d| char::from(d - 1 + b'0')).collect();
    let many = digits.len() as i64;
    Some(match exponent {
        // Zeros behind the digits, the point between them, or zeros before them.
        _ if exponent >= many && exponent <= PLAIN => {
            format!("{sign}{digits}{}", "0".repeat((exponent - many) as usize))
        }
        _ if (1..many).contains(&exponent) => {
            let (whole, fraction) = digits.split_at(exponent as usize);
            format!("{sign}{whole}.{fraction}")
        }
        _ if (-PLAIN..=0).contains(&exponent) => {
            format!("{sign}0.{}{digits}", "0".repeat(-exponent as usize))
        }
        _ => format!("{sign}0.{digits}e{exponent}"),
    })
}

/// This many zeros are written out; what has more is easier to read with an exponent.
const PLAIN: i64 = 20;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(text: &str) -> Vec<u8> {
        number(text).unwrap()
    }

    #[test]
    fn numbers_are_in_order_and_equal_ones_are_equal() {
        let ordered = [
            "-1e300",
            "-1000",
            "-999.5",
            "-999",
            "-10",
            "-9",
            "-1.5",
            "-1",
            "-0.1",
            "-0.01",
            "-1e-300",
            "0",
            "1e-300",
            "0.001",
            "0.01",
            "0.1",
            "0.11",
            "1",
            "1.05",
            "1.5",
            "2",
            "9",
            "9.99",
            "10",
            "100",
            "100000000000000000001",
            "100000000000000000002",
            "1e300",
        ];
        for pair in ordered.windows(2) {
            assert!(of(pair[0]) < of(pair[1]), "{pair:?}");
        }
        for same in [
            ["1", "1.0"],
            ["-0", "0.00"],
            ["1E2", "100"],
            ["1e-2", "0.010"],
            ["007", "7"],
        ] {
            assert_eq!(of(same[0]), of(same[1]), "{same:?}");
        }
        for bad in [
            "",
            "-",
            "1.",
            ".5",
            "1e",
            "--1",
            "0x1",
            "1e99999999999",
            "NaN",
            " 1",
            "+1",
        ] {
            assert_eq!(number(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn integers_and_floats_compare_as_they_do(a: i64, b: i64, x in -1e9..1e9f64, y in -1e-3..1e3f64) {
            prop_assert_eq!(of(&a.to_string()).cmp(&of(&b.to_string())), a.cmp(&b));
            prop_assert_eq!(of(&x.to_string()).cmp(&of(&y.to_string())), x.total_cmp(&y));
            prop_assert_eq!(to_number(&of(&a.to_string())), Some(a.to_string()));
        }

        #[test]
        fn any_bytes_are_a_number_or_none(bytes: Vec<u8>) {
            if let Some(text) = to_number(&bytes) {
                prop_assert_eq!(number(&text), Some(bytes));
            }
        }

        #[test]
        fn what_was_a_number_comes_back(text in "-?[0-9]{1,30}(\\.[0-9]{1,30})?(e-?[0-9]{1,3})?") {
            let bytes = of(&text);
            let back = to_number(&bytes).unwrap();
            prop_assert_eq!(of(&back), bytes);
        }
    }
}
