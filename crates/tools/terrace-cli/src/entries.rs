//! Single records and ranges: `get`, `put`, `delete`, `scan` and `dump`.

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};
use std::io::{self, IsTerminal, Read, Write};
use std::process::ExitCode;

use crate::args::{DeleteArgs, DumpArgs, GetArgs, KindName, PutArgs, ScanArgs};
use crate::engine::timed::Timed;
use crate::engine::{
    Db, Durability, Entries, KeyRange, MAX_KEY_BYTES, MAX_VALUE_BYTES, Settings, Tree,
    TreeSettings, too_long,
};
use crate::load::parts;
use crate::load::source::millis;
use crate::output::{is_closed_pipe, is_unwritten, print, print_found, stdout, tell, told_once};
use crate::progress;
use crate::text::{add_dumped, add_field, escape, escape_value, given, hex};

/// `terrace get`
pub fn get(args: &GetArgs) -> Result<ExitCode> {
    let key = given(&args.key, args.hex)?;
    let db = Db::open_to_read(&args.open, args.json)?;
    let tree = db.tree(args.structure.structure.as_deref())?;
    if let Some(index) = &args.index {
        let shown = Shown {
            json: args.json,
            hex: args.hex,
            values: true,
            index: false,
        };
        let count = shown.all(tree.by_index(index, &key)?, usize::MAX)?;
        drop(tree);
        db.close()?;
        if count == 0 {
            tell(&format!(
                "terrace: no row has the key {:?} in the index {index:?}",
                args.key
            ));
            return Ok(ExitCode::FAILURE);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let value = tree.get(&key)?;
    drop(tree);
    // Printed first: a right answer is one also if the closing fails.
    let printed = match &value {
        Some(value) => print_value(args, &key, value),
        None => Ok(()),
    };
    let code = match value {
        Some(_) => ExitCode::SUCCESS,
        None => not_there(&args.key),
    };
    db.close()?;
    printed?;
    Ok(code)
}

/// Prints what `terrace get` has found.
pub(crate) fn print_value(args: &GetArgs, key: &[u8], value: &[u8]) -> Result<()> {
    let mut out = stdout();
    if args.json {
        writeln!(out, "{}", object(key, Some(value)))?;
    } else if args.hex {
        writeln!(out, "{}", hex(value))?;
    } else {
        // The bytes as they are, for whoever takes them up.
        out.write_all(value)?;
        writeln!(out)?;
    }
    out.flush()?;
    Ok(())
}

/// `terrace put`
pub fn put(args: &PutArgs) -> Result<ExitCode> {
    let key = given(&args.key, args.hex)?;
    let value = if args.value == "-" {
        value_from(io::stdin().lock(), args.hex)?
    } else {
        given(&args.value, args.hex)?
    };
    if let Some(problem) = too_long(&key, &value, MAX_KEY_BYTES) {
        bail!(problem);
    }
    let settings = Settings {
        memory: args.open.memory.0,
        log_limit: args.open.log_limit.map(|size| size.0),
        create: true,
        progress: !args.json,
        ..Settings::default()
    };
    let db = Db::open(&args.open.db, &settings)?;
    let settings = TreeSettings {
        compression: args.compress,
        expiring: args.expiring || args.expires.is_some(),
        ..TreeSettings::of_kind(args.kind.map(KindName::kind))
    };
    let (db, tree) = db.open_to_write(|db| match &args.structure {
        Some(name) => db.tree_or_create(name, &settings),
        None if db.names().is_empty() => db.tree_or_create("main", &settings),
        None => match db.names().as_slice() {
            [only] => db.tree_or_create(only, &settings),
            _ => db.tree(None),
        },
    })?;
    match args.expires {
        Some(time) => tree.put_for(&key, &value, time, Durability::Sync)?,
        None => tree.put(&key, &value, Durability::Sync)?,
    }
    db.close()?;
    if args.json {
        let mut object = Map::new();
        add_field(&mut object, "key", &key);
        object.insert("value_bytes".into(), value.len().into());
        print(&format!("{}\n", Value::Object(object)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The value that the standard input holds; no more of it than a value may have, and a little.
pub(crate) fn value_from(input: impl Read, in_hex: bool) -> Result<Vec<u8>> {
    // Two digits for a byte, and the end of the line.
    let most = MAX_VALUE_BYTES as u64 * if in_hex { 2 } else { 1 };
    let mut value = Vec::new();
    input
        .take(most + 4)
        .read_to_end(&mut value)
        .context("cannot read the value")?;
    if value.len() as u64 > most + 3 {
        bail!("the value has more than {MAX_VALUE_BYTES} bytes, which are the most");
    }
    if !in_hex {
        return Ok(value);
    }
    let text = String::from_utf8_lossy(&value);
    given(text.trim_ascii_end(), true)
}

/// `terrace delete`
pub fn delete(args: &DeleteArgs) -> Result<ExitCode> {
    let Some(named) = &args.key else {
        return delete_range(args);
    };
    let key = given(named, args.hex)?;
    let db = Db::open_existing(&args.open, args.json)?;
    let was_there = db.tree(args.structure.structure.as_deref())?.remove(&key)?;
    db.close()?;
    if args.json {
        let mut object = Map::new();
        add_field(&mut object, "key", &key);
        object.insert("was_there".into(), was_there.into());
        print_found(&format!("{}\n", Value::Object(object)))?;
    }
    Ok(if was_there {
        ExitCode::SUCCESS
    } else {
        not_there(named)
    })
}

/// `terrace delete` with a range: how many records there were is not known of one that goes at once.
fn delete_range(args: &DeleteArgs) -> Result<ExitCode> {
    let bytes = |text: &Option<String>| {
        text.as_deref()
            .map(|text| given(text, args.hex))
            .transpose()
    };
    let keys = KeyRange {
        prefix: bytes(&args.prefix)?,
        from: bytes(&args.from)?,
        to: bytes(&args.to)?,
        reverse: false,
    };
    // What a shell makes of a variable that is not set.
    let all = keys.prefix.as_deref() == Some(&b""[..])
        || keys.to.is_none() && keys.from.as_deref() == Some(&b""[..]);
    if all {
        bail!("this would remove everything: `terrace drop` removes a whole structure");
    }
    let db = Db::open_existing(&args.open, args.json)?;
    let tree = db.tree(args.structure.structure.as_deref())?;
    let removed = match args.atomic {
        true => tree.delete_range(&keys).map(|()| None)?,
        false => Some(tree.remove_range(&keys)?),
    };
    db.close()?;
    if args.json {
        print(&format!("{}\n", serde_json::json!({ "removed": removed })))?;
    } else if let Some(removed) = removed {
        tell(&format!("{removed} records were removed"));
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn not_there(key: &str) -> ExitCode {
    tell(&format!("terrace: there is no key {key:?}"));
    ExitCode::FAILURE
}

/// `terrace scan`
pub fn scan(args: &ScanArgs) -> Result<ExitCode> {
    let bytes = |text: &Option<String>| {
        text.as_deref()
            .map(|text| given(text, args.hex))
            .transpose()
    };
    let keys = KeyRange {
        prefix: bytes(&args.prefix)?,
        from: bytes(&args.from)?,
        to: bytes(&args.to)?,
        reverse: args.reverse,
    };
    let db = Db::open_to_read(&args.open, args.json)?;
    let tree = db.tree(args.structure.structure.as_deref())?;
    // Rows are not needed to count them.
    let values = !args.keys_only && !args.count;
    let entries = match &args.index {
        Some(index) => tree.scan_index(index, &keys, values)?,
        None => tree.scan(&keys)?,
    };
    let limit = args
        .limit
        .map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
    if args.count {
        let mut count = 0u64;
        let spinner = progress::spinner(args.json);
        for entry in entries.take(limit) {
            entry?;
            count += 1;
            progress::counted(&spinner, count, "records counted");
        }
        spinner.finish_and_clear();
        print(&if args.json {
            format!("{{\"count\":{count}}}\n")
        } else {
            format!("{count}\n")
        })?;
    } else {
        let shown = Shown {
            json: args.json,
            hex: args.hex,
            values,
            index: args.index.is_some() && !values,
        };
        shown.all(entries, limit)?;
    }
    drop(tree);
    db.close()?;
    Ok(ExitCode::SUCCESS)
}

/// How records are printed.
pub(crate) struct Shown {
    pub(crate) json: bool,
    pub(crate) hex: bool,
    /// Values too.
    pub(crate) values: bool,
    /// They are keys of an index with primary keys.
    pub(crate) index: bool,
}

impl Shown {
    /// Prints the first of these records; how many there were.
    pub(crate) fn all(&self, entries: Entries, limit: usize) -> Result<u64> {
        let mut out = stdout();
        let mut count = 0;
        let shown = if self.hex { hex } else { escape };
        let shown_value = if self.hex { hex } else { escape_value };
        for entry in entries.take(limit) {
            let (key, value) = entry?;
            count += 1;
            if self.json && self.index {
                let mut object = Map::new();
                add_field(&mut object, "index_key", &key);
                add_field(&mut object, "key", &value);
                writeln!(out, "{}", Value::Object(object))?;
            } else if self.json {
                writeln!(out, "{}", object(&key, self.values.then_some(&value)))?;
            } else if self.values || self.index {
                writeln!(out, "{}\t{}", shown(&key), shown_value(&value))?;
            } else {
                writeln!(out, "{}", shown(&key))?;
            }
        }
        out.flush()?;
        Ok(count)
    }
}

/// `terrace dump`
pub fn dump(args: &DumpArgs) -> Result<ExitCode> {
    let db = Db::open_to_read(&args.open, false)?;
    let mut out = stdout();
    let mut damaged = None;
    if args.all {
        for info in db.structures() {
            writeln!(out, "{}", parts::line(&info)?)?;
            let dumped = dump_one(&mut out, &db.tree(Some(&info.name))?);
            // What the others have is saved nevertheless.
            if let Err(error) = dumped {
                if is_unwritten(&error) {
                    return Err(error);
                }
                let error = error.context(format!("the structure {:?}", info.name));
                if let Some(before) = damaged.replace(error) {
                    tell(&format!("terrace: {}", told_once(&before)));
                }
            }
        }
    } else {
        let tree = db.tree(args.structure.structure.as_deref())?;
        damaged = dump_one(&mut out, &tree).err();
    }
    if let Some(error) = damaged {
        if is_unwritten(&error) {
            return Err(error);
        }
        return Err(error.context(format!(
            "{} could not be read whole",
            args.open.db.display()
        )));
    }
    out.flush()?;
    db.close()?;
    Ok(ExitCode::SUCCESS)
}

/// Prints all records of a structure; of a damaged one those that can be read, and then it is an error.
fn dump_one(out: &mut impl Write, tree: &Tree) -> Result<()> {
    // Not between the records, if they are on a terminal, too.
    let spinner = progress::spinner(io::stdout().is_terminal());
    let mut count = 0;
    let counted = tree.all_timed()?.inspect(|_| {
        count += 1;
        progress::counted(&spinner, count, "records dumped");
    });
    let dumped = write_dumped(out, counted);
    spinner.finish_and_clear();
    let (before, damage) = dumped?;
    let Some(damage) = damage else {
        return Ok(());
    };
    tell(&format!("terrace: {}", told_once(&damage)));
    // What comes behind the damage can be reached from the other end.
    let rescued = rescue(out, tree);
    let said = match rescued {
        Err(error) if !is_closed_pipe(&error) => return Err(error),
        Ok(Some((behind, Some(_)))) => format!(
            "{before} records before the damage and {behind} behind it are dumped; those between are \
             missing"
        ),
        Ok(Some((_, None))) => {
            "reading failed once, and then no more: all records are dumped, some of them twice"
                .into()
        }
        _ => format!("{before} records that were read before the damage are dumped"),
    };
    bail!(said)
}

/// Writes records until one cannot be read: how many, and why there were no more. An error is one of
/// writing.
pub(crate) fn write_dumped(
    out: &mut impl Write,
    entries: impl Iterator<Item = Result<Timed>>,
) -> Result<(u64, Option<anyhow::Error>)> {
    let mut count = 0;
    for entry in entries {
        let ((key, value), expires) = match entry {
            Ok(entry) => entry,
            Err(error) => return Ok((count, Some(error))),
        };
        let mut object = Map::new();
        add_dumped(&mut object, "key", &key);
        add_dumped(&mut object, "value", &value);
        if let Some(time) = expires {
            object.insert("expires".into(), millis(time).into());
        }
        writeln!(out, "{}", Value::Object(object))?;
        count += 1;
    }
    Ok((count, None))
}

/// Writes the records from the last one to the first until one cannot be read, as [`write_dumped`] says;
/// none if the first pass did not go in an order that has another end.
fn rescue(out: &mut impl Write, tree: &Tree) -> Result<Option<(u64, Option<anyhow::Error>)>> {
    let rescued = match tree.all_reversed()? {
        Some(entries) => Some(write_dumped(out, entries)?),
        None => None,
    };
    out.flush()?;
    Ok(rescued)
}

pub(crate) fn object(key: &[u8], value: Option<&[u8]>) -> Value {
    let mut object = Map::new();
    add_field(&mut object, "key", key);
    if let Some(value) = value {
        add_field(&mut object, "value", value);
    }
    Value::Object(object)
}
