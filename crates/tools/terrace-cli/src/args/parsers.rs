//! What single arguments may be.

use clap::builder::{OsStringValueParser, TypedValueParser};

/// What separates fields: a character of ASCII.
pub fn parse_delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"\\t" => Ok(b'\t'),
        [byte] if byte.is_ascii() && !matches!(byte, b'\n' | b'\r' | b'"') => Ok(*byte),
        _ => Err(format!(
            "{text:?} is no delimiter: give one character of ASCII, or \\t for a tab"
        )),
    }
}

/// A key or value as it is typed.
pub fn key_parser() -> impl TypedValueParser<Value = String> {
    OsStringValueParser::new().try_map(|text| {
        text.into_string().map_err(|_| {
            "it is not UTF-8: give its bytes in hexadecimal, with --hex; then what is printed is in \
             hexadecimal, too"
        })
    })
}
