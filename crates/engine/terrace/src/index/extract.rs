//! Finding the keys of an index in a row.
//!
//! Invariants: no row, and no function of the user, makes this panic; while it runs nothing is held.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::definition::{Extractor, KeySource, Place};
use crate::encode;

/// What finds the keys of an index in a row.
#[derive(Clone)]
pub enum Extract {
    /// A function of the program.
    Function(Extractor),
    /// A place in the row.
    Declared(KeySource),
}

impl Extract {
    /// The keys in this row, each once and in order; what is wrong with the row if there is. O(length of the row)
    /// for a declared source.
    pub fn keys(&self, row: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        let mut keys = match self {
            Extract::Function(function) => catch_unwind(AssertUnwindSafe(|| function(row)))
                .unwrap_or_else(|panic| Err(format!("its function panicked: {}", said(&*panic))))?,
            Extract::Declared(KeySource(Place::Each(place))) => elements(row, place)?,
            Extract::Declared(KeySource(place)) => at_place(row, place)?.into_iter().collect(),
        };
        keys.sort_unstable();
        keys.dedup();
        Ok(keys)
    }
}

fn at_place(row: &[u8], place: &Place) -> Result<Option<Vec<u8>>, String> {
    match place {
        Place::Bytes(range) => Ok(row.get(range.clone()).map(<[u8]>::to_vec)),
        Place::Json(pointer) => Ok(json_key(row, pointer)?.filter(|key| !key.is_empty())),
        Place::JsonOrEmpty(pointer) => json_key(row, pointer),
        Place::Csv(column, delimiter) => csv_key(row, usize::from(*column), *delimiter),
        Place::Number(place) => {
            let key = at_place(row, place)?;
            key.map(|key| as_number(&key)).transpose()
        }
        // Only outermost.
        Place::Each(place) => Ok(elements(row, place)?.into_iter().next()),
    }
}

fn as_number(text: &[u8]) -> Result<Vec<u8>, String> {
    let text = String::from_utf8_lossy(text);
    encode::number(&text).ok_or_else(|| {
        let shown: String = text.chars().take(40).collect();
        format!("{shown:?} is no number")
    })
}

/// The keys of the elements of an array, or the one of what is none.
fn elements(row: &[u8], place: &Place) -> Result<Vec<Vec<u8>>, String> {
    match place {
        Place::Json(pointer) => {
            let mut keys = json_elements(row, pointer)?;
            keys.retain(|key| !key.is_empty());
            Ok(keys)
        }
        Place::JsonOrEmpty(pointer) => json_elements(row, pointer),
        Place::Number(place) => elements(row, place)?
            .iter()
            .map(|key| as_number(key))
            .collect(),
        _ => Ok(at_place(row, place)?.into_iter().collect()),
    }
}

fn said(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without saying why")
}

#[cfg(feature = "json")]
use serde_json::value::RawValue;

#[cfg(feature = "json")]
fn no_json(e: serde_json::Error) -> String {
    format!("the row is no JSON: {e}")
}

/// What a pointer names in a row, as the row has it: a number keeps all its digits, where a parsed
/// one would be rounded, and two rows would have one key.
#[cfg(feature = "json")]
fn json_at<'r>(row: &'r [u8], pointer: &str) -> Result<Option<&'r RawValue>, String> {
    use std::collections::HashMap;
    let mut at: &RawValue = serde_json::from_slice(row).map_err(no_json)?;
    // A pointer that is not empty begins with a slash; every step looks only at what is below it.
    for token in pointer.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        let below = match at.get().as_bytes().first() {
            Some(b'{') => {
                let mut fields: HashMap<String, &RawValue> =
                    serde_json::from_str(at.get()).map_err(no_json)?;
                fields.remove(&token)
            }
            Some(b'[') => {
                let items: Vec<&RawValue> = serde_json::from_str(at.get()).map_err(no_json)?;
                position(&token).and_then(|i| items.get(i).copied())
            }
            _ => None,
        };
        match below {
            Some(below) => at = below,
            None => return Ok(None),
        }
    }
    Ok(Some(at))
}

/// The key that a value is.
#[cfg(feature = "json")]
fn json_text(at: &RawValue, pointer: &str) -> Result<Option<Vec<u8>>, String> {
    match at.get().as_bytes().first() {
        Some(b'n') => Ok(None),
        Some(b'"') => {
            let text: String = serde_json::from_str(at.get()).map_err(no_json)?;
            Ok(Some(text.into_bytes()))
        }
        Some(b'[') => Err(format!("{pointer:?} is an array, which is no key")),
        Some(b'{') => Err(format!("{pointer:?} is an object, which is no key")),
        _ => Ok(Some(at.get().as_bytes().to_vec())),
    }
}

#[cfg(feature = "json")]
fn json_key(row: &[u8], pointer: &str) -> Result<Option<Vec<u8>>, String> {
    match json_at(row, pointer)? {
        Some(at) => json_text(at, pointer),
        None => Ok(None),
    }
}

#[cfg(feature = "json")]
fn json_elements(row: &[u8], pointer: &str) -> Result<Vec<Vec<u8>>, String> {
    let Some(at) = json_at(row, pointer)? else {
        return Ok(Vec::new());
    };
    if !at.get().starts_with('[') {
        return Ok(json_text(at, pointer)?.into_iter().collect());
    }
    let items: Vec<&RawValue> = serde_json::from_str(at.get()).map_err(no_json)?;
    let keys = items.iter().map(|item| json_text(item, pointer));
    keys.filter_map(Result::transpose).collect()
}

/// The place in an array that a step of a pointer names: RFC 6901 has one text for each.
#[cfg(feature = "json")]
fn position(token: &str) -> Option<usize> {
    let at: usize = token.parse().ok()?;
    (at.to_string() == token).then_some(at)
}

#[cfg(not(feature = "json"))]
const NO_JSON: &str = "this program was built without the feature \"json\" of terrace";

#[cfg(not(feature = "json"))]
fn json_key(_: &[u8], _: &str) -> Result<Option<Vec<u8>>, String> {
    Err(NO_JSON.into())
}

#[cfg(not(feature = "json"))]
fn json_elements(_: &[u8], _: &str) -> Result<Vec<Vec<u8>>, String> {
    Err(NO_JSON.into())
}

/// The field of a column, counted from 1, up to the end of the first line outside of quotes.
fn csv_key(row: &[u8], column: usize, delimiter: u8) -> Result<Option<Vec<u8>>, String> {
    let (mut rest, mut field) = (row.iter().copied().peekable(), Vec::new());
    let mut at = 1;
    loop {
        field.clear();
        let mut quoted = rest.next_if_eq(&b'"').is_some();
        let more = loop {
            match rest.next() {
                None if quoted => return Err("a quote of the row is not closed".into()),
                None | Some(b'\n') if !quoted => break false,
                // Two quotes are one, and a single one ends the quoted part.
                Some(b'"') if quoted && rest.next_if_eq(&b'"').is_none() => quoted = false,
                Some(byte) if byte == delimiter && !quoted => break true,
                Some(b'\r') if !quoted && matches!(rest.peek(), None | Some(b'\n')) => {}
                Some(byte) => field.push(byte),
                None => break false,
            }
        };
        if at == column {
            return Ok((!field.is_empty()).then_some(field));
        }
        if !more {
            return Ok(None);
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn of(source: &str, row: &[u8]) -> Result<Option<String>, String> {
        let mut keys = Extract::Declared(source.parse().unwrap()).keys(row)?;
        assert!(keys.len() < 2);
        Ok(keys.pop().map(|key| String::from_utf8(key).unwrap()))
    }

    fn some(text: &str) -> Result<Option<String>, String> {
        Ok(Some(text.into()))
    }

    #[test]
    fn bytes_of_a_row() {
        assert_eq!(of("bytes:1..3", b"abcd"), some("bc"));
        assert_eq!(of("bytes:1..3", b"ab"), Ok(None));
        assert_eq!(of("bytes:9..10", b""), Ok(None));
    }

    #[test]
    fn columns_of_a_row() {
        assert_eq!(of("csv:1", b"a,b,c"), some("a"));
        assert_eq!(of("csv:3", b"a,b,c\r\n"), some("c"));
        assert_eq!(of("csv:4", b"a,b,c\n"), Ok(None));
        assert_eq!(of("csv:2", b"a,,c"), Ok(None));
        assert_eq!(of("csv:2", b"a,\"x, \"\"y\"\"\nz\",c"), some("x, \"y\"\nz"));
        assert_eq!(of("csv:2:\\t", b"a\tb c\td"), some("b c"));
        assert_eq!(of("csv:1", b""), Ok(None));
        assert!(of("csv:1", b"\"open").unwrap_err().contains("quote"));
    }

    #[cfg(feature = "json")]
    #[test]
    fn places_in_json() {
        let row = br#"{"a":{"b":["x",7,true,null,{}]},"":"e"}"#;
        assert_eq!(of("json:/a/b/0", row), some("x"));
        assert_eq!(of("json:/a/b/1", row), some("7"));
        assert_eq!(of("json:/a/b/2", row), some("true"));
        assert_eq!(of("json:/a/b/3", row), Ok(None));
        assert_eq!(of("json:/a/c", row), Ok(None));
        assert_eq!(of("json:/", row), some("e"));
        assert!(of("json:/a/b/4", row).unwrap_err().contains("object"));
        assert!(of("json:/a/b", row).unwrap_err().contains("array"));
        assert!(of("json:/a", b"{").unwrap_err().contains("no JSON"));
        assert_eq!(of("json:", br#" "all" "#), some("all"));
        // Many rows may have nothing there, and one key of nothing would be refused under a unique index.
        assert_eq!(of("json:/a", br#"{"a":""}"#), Ok(None));
        assert_eq!(of("json-or-empty:/a", br#"{"a":""}"#), some(""));
        assert_eq!(of("json-or-empty:/a", br#"{"a":null}"#), Ok(None));
        assert_eq!(of("json-or-empty:/a", br#"{"a":7}"#), some("7"));
        assert_eq!(
            of("json:/a~1b/~01", br#"{"a/b":{"~1":false}}"#),
            some("false")
        );
        // Of a name that comes twice the last counts, and only one text names a place.
        assert_eq!(of("json:/a", br#"{"a":1,"a":2}"#), some("2"));
        assert_eq!(of("json:/01", b"[1,2]"), Ok(None));
        assert_eq!(of("json:/+1", b"[1,2]"), Ok(None));
        assert_eq!(of("json:/2", b"[1,2]"), Ok(None));
        assert_eq!(of("json:/a/b", br#"{"a":1}"#), Ok(None));
    }

    #[cfg(feature = "json")]
    #[test]
    fn numbers_of_a_row() {
        let key = |source: &str, row: &[u8]| {
            let keys = Extract::Declared(source.parse().unwrap()).keys(row)?;
            Ok::<_, String>(keys.into_iter().next())
        };
        assert_eq!(key("number:csv:2", b"a,1e2"), Ok(encode::number("100")));
        assert_eq!(
            key("number:json:/a", br#"{"a":-1.50}"#),
            Ok(encode::number("-1.5"))
        );
        assert_eq!(
            key("number:json:/a", br#"{"a":"7"}"#),
            Ok(encode::number("7"))
        );
        assert_eq!(key("number:json:/a", br#"{"b":7}"#), Ok(None));
        assert!(
            key("number:json:/a", br#"{"a":"x"}"#)
                .unwrap_err()
                .contains("no number")
        );
    }

    #[cfg(feature = "json")]
    #[test]
    fn elements_of_an_array() {
        let of = |source: &str, row: &str| {
            let keys = Extract::Declared(source.parse().unwrap()).keys(row.as_bytes())?;
            let text = |key| String::from_utf8(key).unwrap();
            Ok::<_, String>(keys.into_iter().map(text).collect::<Vec<_>>())
        };
        let row = r#"{"a":["y","x",null,"",7,"x"],"b":"one"}"#;
        assert_eq!(of("each:json:/a", row).unwrap(), ["7", "x", "y"]);
        assert_eq!(
            of("each:json-or-empty:/a", row).unwrap(),
            ["", "7", "x", "y"]
        );
        assert_eq!(of("each:json:/b", row).unwrap(), ["one"]);
        assert!(of("each:json:/c", row).unwrap().is_empty());
        assert!(
            of("each:json:/a", r#"{"a":[[1]]}"#)
                .unwrap_err()
                .contains("array")
        );
        assert!(of("each:json:", "[").unwrap_err().contains("no JSON"));
        let numbers = Extract::Declared("each:number:json:".parse().unwrap());
        let wanted = ["-1", "2", "10"].map(|text| encode::number(text).unwrap());
        assert_eq!(numbers.keys(b"[10,2,-1,2.0]").unwrap(), wanted);
        assert!(numbers.keys(b"[1,true]").unwrap_err().contains("no number"));
    }

    #[cfg(feature = "json")]
    #[test]
    fn a_number_keeps_its_text_as_a_key() {
        for number in [
            "100000000000000000001",
            "100000000000000000002",
            "-9223372036854775809",
            "1.10",
            "1E400",
            "0.1000000000000000000000001",
            "-0",
        ] {
            let row = format!("{{\"a\": [ {number} ]}}");
            assert_eq!(of("json:/a/0", row.as_bytes()), some(number));
        }
    }

    #[test]
    fn a_function_that_panics_is_an_error() {
        let extract = Extract::Function(Arc::new(|row: &[u8]| Ok(vec![row[..4].to_vec()])));
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| ()));
        let answer = extract.keys(b"abc");
        std::panic::set_hook(hook);
        assert!(answer.unwrap_err().contains("panicked"));
        assert_eq!(extract.keys(b"abcde"), Ok(vec![b"abcd".to_vec()]));
    }
}
