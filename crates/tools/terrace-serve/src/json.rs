//! Values of Lua as JSON, byte for byte as Redis' library for it writes them, and back.
//!
//! Invariants: nothing of a value is lost, or it is an error; any bytes of a string come back as they were; depth and
//! the number of values are bounded.

use mlua::{Lua, Table, Value};

use crate::text::general;

/// How deep tables may lie in each other.
const DEEPEST: usize = 64;
/// Values of a table that become JSON: the same table may lie in it very often.
const MOST_VALUES: usize = 1 << 20;
/// A table is an array if it has at most this many places, whatever is in them,
const ALWAYS_ARRAY: i64 = 10;
/// or if its places are at most this many times what is in them.
const SPARSE: i64 = 2;
/// Digits of a number.
const DIGITS: usize = 14;
/// Bytes that are no text stand as these characters while they are read.
const RAW: u32 = 0x0010_FF00;

fn refuse<T>(what: &str, why: &str) -> mlua::Result<T> {
    Err(mlua::Error::runtime(format!(
        "Cannot serialise {what}: {why}"
    )))
}

/// What is written, and how many values more there may be.
struct Writer {
    out: Vec<u8>,
    left: usize,
}

/// A value as JSON.
///
/// # Errors
/// What JSON has no form for.
pub fn encode(value: &Value) -> mlua::Result<Vec<u8>> {
    let mut writer = Writer {
        out: Vec::new(),
        left: MOST_VALUES,
    };
    writer.value(value, 0)?;
    Ok(writer.out)
}

impl Writer {
    fn value(&mut self, value: &Value, depth: usize) -> mlua::Result<()> {
        self.left = self.left.saturating_sub(1);
        if depth > DEEPEST || self.left == 0 {
            return Err(mlua::Error::runtime("Cannot serialise, excessive depth"));
        }
        match value {
            Value::Nil => self.out.extend_from_slice(b"null"),
            Value::LightUserData(data) if data.0.is_null() => self.out.extend_from_slice(b"null"),
            Value::Boolean(true) => self.out.extend_from_slice(b"true"),
            Value::Boolean(false) => self.out.extend_from_slice(b"false"),
            Value::Integer(number) => self.number(*number as f64)?,
            Value::Number(number) => self.number(*number)?,
            Value::String(text) => self.text(&text.as_bytes()),
            Value::Table(table) => match places(table)? {
                Some(places) => self.array(table, places, depth)?,
                None => self.object(table, depth)?,
            },
            other => return refuse(other.type_name(), "type not supported"),
        }
        Ok(())
    }

    fn number(&mut self, number: f64) -> mlua::Result<()> {
        if !number.is_finite() {
            return refuse("number", "must not be NaN or Inf");
        }
        self.out
            .extend_from_slice(general(number, DIGITS).as_bytes());
        Ok(())
    }

    fn text(&mut self, text: &[u8]) {
        self.out.push(b'"');
        for &byte in text {
            match byte {
                b'"' | b'\\' | b'/' => self.out.extend_from_slice(&[b'\\', byte]),
                8 => self.out.extend_from_slice(b"\\b"),
                b'\t' => self.out.extend_from_slice(b"\\t"),
                b'\n' => self.out.extend_from_slice(b"\\n"),
                12 => self.out.extend_from_slice(b"\\f"),
                b'\r' => self.out.extend_from_slice(b"\\r"),
                0..32 | 127 => self
                    .out
                    .extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
                _ => self.out.push(byte),
            }
        }
        self.out.push(b'"');
    }

    fn array(&mut self, table: &Table, places: i64, depth: usize) -> mlua::Result<()> {
        self.out.push(b'[');
        for i in 1..=places {
            if i > 1 {
                self.out.push(b',');
            }
            self.value(&table.raw_get(i)?, depth + 1)?;
        }
        self.out.push(b']');
        Ok(())
    }

    fn object(&mut self, table: &Table, depth: usize) -> mlua::Result<()> {
        self.out.push(b'{');
        let mut first = true;
        table.for_each::<Value, Value>(|key, value| {
            if !std::mem::take(&mut first) {
                self.out.push(b',');
            }
            match &key {
                Value::String(text) => self.text(&text.as_bytes()),
                Value::Integer(number) => self.text(general(*number as f64, DIGITS).as_bytes()),
                Value::Number(number) => self.text(general(*number, DIGITS).as_bytes()),
                other => {
                    return refuse(other.type_name(), "table key must be a number or string");
                }
            }
            self.out.push(b':');
            self.value(&value, depth + 1)
        })?;
        self.out.push(b'}');
        Ok(())
    }
}

/// How many places a table has that is an array; none if it has other names, or is empty.
fn places(table: &Table) -> mlua::Result<Option<i64>> {
    let (mut last, mut many, mut named) = (0, 0, false);
    table.for_each::<Value, Value>(|key, _| {
        many += 1;
        match key {
            Value::Integer(at) if at >= 1 => last = last.max(at),
            Value::Number(at) if at >= 1.0 && at == at.trunc() && at < 9e15 => {
                last = last.max(at as i64);
            }
            _ => named = true,
        }
        Ok(())
    })?;
    if named || last == 0 {
        return Ok(None);
    }
    match last > ALWAYS_ARRAY && last > SPARSE * many {
        true => refuse("table", "excessively sparse array"),
        false => Ok(Some(last)),
    }
}

/// What JSON stands for.
///
/// # Errors
/// What is wrong with it.
pub fn decode(lua: &Lua, json: &[u8]) -> mlua::Result<Value> {
    let external = mlua::Error::external;
    if let Ok(text) = std::str::from_utf8(json) {
        let value = serde_json::from_str(text).map_err(external)?;
        return decoded(lua, &value, false);
    }
    // Strings may hold any bytes here. They are read as characters that are not used otherwise, and become bytes
    // again.
    let mut text = String::new();
    for part in json.utf8_chunks() {
        text += part.valid();
        let raw = part.invalid().iter();
        text.extend(raw.filter_map(|byte| char::from_u32(RAW + u32::from(*byte))));
    }
    decoded(lua, &serde_json::from_str(&text).map_err(external)?, true)
}

fn decoded(lua: &Lua, json: &serde_json::Value, raw: bool) -> mlua::Result<Value> {
    use serde_json::Value as Json;
    let string = |text: &str| match raw {
        true => lua.create_string(bytes_of(text)),
        false => lua.create_string(text),
    };
    Ok(match json {
        Json::Null => Value::NULL,
        Json::Bool(yes) => Value::Boolean(*yes),
        Json::Number(number) => Value::Number(number.as_f64().unwrap_or(0.0)),
        Json::String(text) => Value::String(string(text)?),
        Json::Array(items) => {
            let table = lua.create_table()?;
            for (i, item) in items.iter().enumerate() {
                table.raw_set(i + 1, decoded(lua, item, raw)?)?;
            }
            Value::Table(table)
        }
        Json::Object(object) => {
            let table = lua.create_table()?;
            for (key, item) in object {
                table.raw_set(string(key)?, decoded(lua, item, raw)?)?;
            }
            Value::Table(table)
        }
    })
}

/// The bytes of a text in which some stand as characters.
fn bytes_of(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    for letter in text.chars() {
        match u32::from(letter).checked_sub(RAW) {
            Some(byte @ 0x80..=0xFF) => bytes.push(byte as u8),
            _ => bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    bytes
}
