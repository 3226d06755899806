//! Keys and values, which are any bytes, on a terminal and in JSON.

use anyhow::{Result, bail};
use serde_json::{Map, Value};

/// The bytes as text on one line: what is no text, and what would break the line, escaped.
pub fn escape(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                c if c.is_control() => {
                    let mut utf8 = [0; 4];
                    c.encode_utf8(&mut utf8)
                        .bytes()
                        .for_each(|b| push_escape(&mut out, b));
                }
                c => out.push(c),
            }
        }
        chunk
            .invalid()
            .iter()
            .for_each(|&b| push_escape(&mut out, b));
    }
    out
}

/// The same of a value. An object of JSON stands as it is, if it is on one line: whoever reads it there reads what
/// `terrace get` prints.
pub fn escape_value(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if is_object_on_a_line(text) => text.to_owned(),
        _ => escape(bytes),
    }
}

fn is_object_on_a_line(text: &str) -> bool {
    let looks_so = text.starts_with('{') && text.ends_with('}') && !text.contains(char::is_control);
    looks_so && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

fn push_escape(out: &mut String, byte: u8) {
    out.push_str("\\x");
    push_hex(out, byte);
}

fn push_hex(out: &mut String, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.push(char::from(DIGITS[usize::from(byte >> 4)]));
    out.push(char::from(DIGITS[usize::from(byte & 15)]));
}

/// The bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    bytes.iter().for_each(|&b| push_hex(&mut out, b));
    out
}

/// Bytes from hexadecimal.
pub fn unhex(text: &str) -> Result<Vec<u8>> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok()))
        .collect();
    match digits {
        Some(digits) if digits.len().is_multiple_of(2) => Ok(digits
            .chunks_exact(2)
            .map(|pair| pair[0] << 4 | pair[1])
            .collect()),
        _ => bail!("{text:?} is not hexadecimal: it takes an even number of digits 0-9 and a-f"),
    }
}

/// A key or value given on the command line.
pub fn given(text: &str, in_hex: bool) -> Result<Vec<u8>> {
    if in_hex {
        unhex(text)
    } else {
        Ok(text.as_bytes().to_vec())
    }
}

/// Adds a field: under its name if it is text, under `NAME_hex` in hexadecimal if not.
pub fn add_field(object: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => object.insert(name.into(), text.into()),
        Err(_) => object.insert(format!("{name}_hex"), hex(bytes).into()),
    };
}

/// The same for a dump: in hexadecimal also where that is shorter, as it is for control characters. So
/// no field takes more than two bytes for one, which is what `load` reads.
pub fn add_dumped(object: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    let in_json: usize = bytes.iter().map(|&byte| json_bytes(byte)).sum();
    if in_json > 2 * bytes.len() {
        object.insert(format!("{name}_hex"), hex(bytes).into());
    } else {
        add_field(object, name, bytes);
    }
}

/// How many bytes JSON takes for one of a text.
fn json_bytes(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | 8 | b'\t' | b'\n' | 12 | b'\r' => 2,
        0..0x20 => 6,
        _ => 1,
    }
}

/// The bytes of a field that [`add_field`] or [`add_dumped`] has added.
pub fn take_field(object: &Map<String, Value>, name: &str) -> Result<Vec<u8>> {
    let in_hex = format!("{name}_hex");
    match (object.get(name), object.get(&in_hex)) {
        (Some(Value::String(text)), None) => Ok(text.as_bytes().to_vec()),
        (None, Some(Value::String(text))) => unhex(text),
        _ => bail!("there must be exactly one of {name:?} and {in_hex:?}, and it must be a string"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_stay_on_one_line() {
        assert_eq!(escape(b"plain"), "plain");
        assert_eq!(escape("für\t".as_bytes()), "für\\t");
        assert_eq!(escape(b"a\\b\n\xff\0"), "a\\\\b\\n\\xff\\x00");
    }

    #[test]
    fn objects_of_json_stand_as_they_are() {
        for text in [r#"{"a":"b\\c\"d"}"#, "{}", r#"{"a":["\u001b"]}"#] {
            assert_eq!(escape_value(text.as_bytes()), text);
        }
        for text in [
            "a\\b",
            r#"{"a":"\x"}"#,
            "{\"a\":\n1}",
            "{\"a\":\"\t\"}",
            "{\\}",
            "\"\\\\\"",
        ] {
            assert_eq!(escape_value(text.as_bytes()), escape(text.as_bytes()));
        }
    }

    #[test]
    fn hexadecimal_leads_back() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(unhex(&hex(&bytes)).unwrap(), bytes);
        for bad in ["a", "zz", "0x00", "é1"] {
            assert!(
                unhex(bad).unwrap_err().to_string().contains("hexadecimal"),
                "{bad}"
            );
        }
    }

    #[test]
    fn fields_lead_back() {
        for bytes in [&b"text"[..], b"\xff\xfe", b""] {
            let mut object = Map::new();
            add_field(&mut object, "key", bytes);
            assert_eq!(take_field(&object, "key").unwrap(), bytes);
            assert!(take_field(&object, "value").is_err());
        }
    }

    #[test]
    fn a_dump_takes_two_bytes_for_one_at_most() {
        let ascii: Vec<u8> = (0..128).collect();
        let mut texts: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte; 40]).collect();
        texts.extend([
            ascii,
            "äöü\n\u{1}".into(),
            b"\0\0plain text".to_vec(),
            Vec::new(),
        ]);
        for bytes in texts {
            let mut object = Map::new();
            add_dumped(&mut object, "value", &bytes);
            let around = "{\"value_hex\":\"\"}".len();
            assert!(Value::from(object.clone()).to_string().len() <= 2 * bytes.len() + around);
            assert_eq!(take_field(&object, "value").unwrap(), bytes);
        }
        for byte in 0..128 {
            let json = Value::from(String::from(char::from(byte))).to_string();
            assert_eq!(json_bytes(byte), json.len() - 2, "{byte}");
        }
    }
}
