//! A table or a view of SQLite: each row is a record.

use anyhow::{Context, Result, anyhow, bail};
use indicatif::ProgressBar;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row};
use serde_json::{Map, Number, Value};

use super::fed::{Fed, Record};
use super::source::{Source, parse_expires};
use crate::args::LoadArgs;
use crate::progress;

/// What becomes of the columns.
struct Shape {
    names: Vec<String>,
    key: usize,
    /// The column of the value; none for all of them, as an object.
    value: Option<usize>,
    expires: Option<usize>,
}

/// Opens a file and looks whether it has what is asked for.
pub fn open(args: &LoadArgs) -> Result<(Box<dyn Source>, ProgressBar)> {
    let path = args.file.display().to_string();
    let from = Connection::open_with_flags(
        &args.file,
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )
    .with_context(|| format!("cannot open {path}"))?;
    let (table, shape) = table(&from, args.table.as_deref())
        .and_then(|table| Ok((shape(&from, &table, args)?, table)))
        .map(|(shape, table)| (quoted(&table), shape))
        .with_context(|| format!("cannot load {path}"))?;
    let bar = match rows(&from, &table) {
        Some(rows) => progress::things(rows, true),
        None => progress::spinner(true),
    };
    let source = Fed::new(bar.clone(), move |to| {
        let mut all = from.prepare(&format!("select * from {table}"))?;
        let mut rows = all.query([])?;
        while let Some(row) = rows.next()? {
            if !to.give(shape.record(row)) {
                break;
            }
        }
        Ok(())
    })?;
    Ok((Box::new(source), bar))
}

/// The name as SQL has it.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The table that is meant.
fn table(from: &Connection, wanted: Option<&str>) -> Result<String> {
    let mut all = from.prepare(
        "select name, type from sqlite_schema where type in ('table', 'view') and name not like 'sqlite\\_%' \
         escape '\\' order by name",
    )?;
    let all: Vec<(String, String)> = all
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    let names = || {
        let names: Vec<_> = all.iter().map(|(name, _)| format!("{name:?}")).collect();
        names.join(", ")
    };
    if let Some(wanted) = wanted {
        // As SQL takes names, in any letters.
        let mut found = all.iter().map(|(name, _)| name);
        let found = found.find(|name| name.eq_ignore_ascii_case(wanted));
        return found
            .cloned()
            .ok_or_else(|| anyhow!("there is no table {wanted:?}; there are {}", names()));
    }
    let mut tables = all.iter().filter(|(_, kind)| kind == "table");
    match (tables.next(), tables.next()) {
        (Some((only, _)), None) => Ok(only.clone()),
        (None, _) => bail!("it has no tables"),
        _ => bail!("it has several tables: say with --table which: {}", names()),
    }
}

/// Which columns become what.
fn shape(from: &Connection, table: &str, args: &LoadArgs) -> Result<Shape> {
    let all = from.prepare(&format!("select * from {}", quoted(table)))?;
    let names: Vec<String> = all.column_names().map(Into::into).collect();
    let find = |wanted: &str| {
        let place = names.iter().position(|name| name == wanted);
        place.ok_or_else(|| {
            anyhow!(
                "there is no column {wanted:?}; {table} has {}",
                names.join(", ")
            )
        })
    };
    let optional = |wanted: &Option<String>| wanted.as_deref().map(find).transpose();
    let key = match &args.key {
        Some(key) => find(key)?,
        None => {
            let mut keys = from.prepare("select name from pragma_table_info(?1) where pk > 0")?;
            let keys: Vec<String> = keys
                .query_map([table], |row| row.get(0))?
                .collect::<Result<_, _>>()?;
            match &keys[..] {
                [key] => find(key)?,
                _ => bail!(
                    "{table} has no primary key of one column: say with --key which column becomes the key: {}",
                    names.join(", ")
                ),
            }
        }
    };
    Ok(Shape {
        key,
        value: optional(&args.value)?,
        expires: optional(&args.expires_field)?,
        names,
    })
}

/// About how many rows there are: more, where some were deleted; nothing, where only counting them would say it.
fn rows(from: &Connection, table: &str) -> Option<u64> {
    let span =
        format!("select (select max(rowid) from {table}) - (select min(rowid) from {table}) + 1");
    let span: i64 = from.query_row(&span, [], |row| row.get(0)).ok()?;
    u64::try_from(span).ok()
}

impl Shape {
    fn record(&self, row: &Row) -> Result<Record> {
        let column =
            |place: usize| Ok::<_, anyhow::Error>((&*self.names[place], row.get_ref(place)?));
        let (name, key) = column(self.key)?;
        let key = bytes(name, key)?;
        if key.is_empty() {
            bail!("the column {name:?} is empty, so there is no key");
        }
        let value = match self.value {
            Some(place) => {
                let (name, value) = column(place)?;
                bytes(name, value)?
            }
            None => {
                let mut object = Map::new();
                for place in 0..self.names.len() {
                    let (name, value) = column(place)?;
                    object.insert(name.to_owned(), json(name, value)?);
                }
                Value::Object(object).to_string().into_bytes()
            }
        };
        let until = match self.expires.map(column).transpose()? {
            None | Some((_, ValueRef::Null)) => None,
            Some((name, time)) => parse_expires(name, &bytes(name, time)?)?,
        };
        Ok(((key, value), until))
    }
}

fn number(name: &str, number: f64) -> Result<Number> {
    Number::from_f64(number)
        .ok_or_else(|| anyhow!("the column {name:?} is {number}, which is no number in JSON"))
}

/// What a column holds, as bytes: text and bytes as they are, numbers in decimal digits.
fn bytes(name: &str, value: ValueRef) -> Result<Vec<u8>> {
    Ok(match value {
        ValueRef::Null => bail!("the column {name:?} is NULL"),
        ValueRef::Integer(n) => n.to_string().into_bytes(),
        ValueRef::Real(n) => number(name, n)?.to_string().into_bytes(),
        ValueRef::Text(text) => text.to_vec(),
        ValueRef::Blob(bytes) => bytes.to_vec(),
    })
}

fn json(name: &str, value: ValueRef) -> Result<Value> {
    Ok(match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(n) => n.into(),
        ValueRef::Real(n) => number(name, n)?.into(),
        ValueRef::Text(text) => match std::str::from_utf8(text) {
            Ok(text) => text.into(),
            Err(_) => bail!("the column {name:?} is not UTF-8"),
        },
        ValueRef::Blob(_) => bail!(
            "the column {name:?} holds bytes, which JSON has not: load it alone with --value {name}, or give \
             --table a view that has hex({name})"
        ),
    })
}
