//! Single records and ranges: `get`, `put`, `delete`, `scan` and `dump`.

use anyhow::{Context, Result};
use serde_json::{Map, Value};
use std::io::{self, Read, Write};
use std::process::ExitCode;

use crate::args::{DeleteArgs, DumpArgs, GetArgs, PutArgs, ScanArgs};
use crate::engine::{Db, Durability, Settings, TreeSettings};
use crate::output::{print, stdout};
use crate::text::{add_field, escape, given, hex};

/// `terrace get`
pub fn get(args: &GetArgs) -> Result<ExitCode> {
    let key = given(&args.key, args.hex)?;
    let db = Db::open_existing(&args.open)?;
    let value = db.tree(args.structure.structure.as_deref())?.get(&key)?;
    db.close()?;
    let Some(value) = value else {
        return Ok(not_there(&args.key));
    };
    let mut out = stdout();
    if args.json {
        writeln!(out, "{}", object(&key, Some(&value)))?;
    } else if args.hex {
        writeln!(out, "{}", hex(&value))?;
    } else {
        // The bytes as they are, for whoever takes them up.
        out.write_all(&value)?;
        writeln!(out)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// `terrace put`
pub fn put(args: &PutArgs) -> Result<ExitCode> {
    let key = given(&args.key, args.hex)?;
    let value = if args.value == "-" {
        let mut value = Vec::new();
        io::stdin()
            .read_to_end(&mut value)
            .context("cannot read the value")?;
        value
    } else {
        given(&args.value, args.hex)?
    };
    let settings = Settings {
        memory: args.open.memory.0,
        create: true,
        ..Settings::default()
    };
    let db = Db::open(&args.open.db, &settings)?;
    let settings = TreeSettings {
        kind: args.kind.kind(),
        ..TreeSettings::default()
    };
    let tree = match &args.structure {
        Some(name) => db.tree_or_create(name, &settings)?,
        None if db.names().is_empty() => db.tree_or_create("main", &settings)?,
        None => db.tree(None)?,
    };
    tree.put(&key, &value, Durability::Sync)?;
    db.close()?;
    if args.json {
        let mut object = Map::new();
        add_field(&mut object, "key", &key);
        object.insert("value_bytes".into(), value.len().into());
        print(&format!("{}\n", Value::Object(object)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// `terrace delete`
pub fn delete(args: &DeleteArgs) -> Result<ExitCode> {
    let key = given(&args.key, args.hex)?;
    let db = Db::open_existing(&args.open)?;
    let was_there = db.tree(args.structure.structure.as_deref())?.remove(&key)?;
    db.close()?;
    if args.json {
        let mut object = Map::new();
        add_field(&mut object, "key", &key);
        object.insert("was_there".into(), was_there.into());
        print(&format!("{}\n", Value::Object(object)))?;
    }
    Ok(if was_there {
        ExitCode::SUCCESS
    } else {
        not_there(&args.key)
    })
}

fn not_there(key: &str) -> ExitCode {
    eprintln!("terrace: there is no key {key:?}");
    ExitCode::FAILURE
}

/// `terrace scan`
pub fn scan(args: &ScanArgs) -> Result<ExitCode> {
    let bytes = |text: &Option<String>| {
        text.as_deref()
            .map(|text| given(text, args.hex))
            .transpose()
    };
    let (prefix, from, to) = (bytes(&args.prefix)?, bytes(&args.from)?, bytes(&args.to)?);
    let db = Db::open_existing(&args.open)?;
    let tree = db.tree(args.structure.structure.as_deref())?;
    let entries = match prefix {
        Some(prefix) => tree.prefix(&prefix, args.reverse)?,
        None => tree.range(from.as_deref(), to.as_deref(), args.reverse)?,
    };
    let limit = args
        .limit
        .map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
    let mut out = stdout();
    let mut count = 0u64;
    for entry in entries.take(limit) {
        let (key, value) = entry?;
        count += 1;
        let value = (!args.keys_only).then_some(value.as_slice());
        if args.count {
            continue;
        } else if args.json {
            writeln!(out, "{}", object(&key, value))?;
        } else {
            let shown = if args.hex { hex } else { escape };
            match value {
                Some(value) => writeln!(out, "{}\t{}", shown(&key), shown(value))?,
                None => writeln!(out, "{}", shown(&key))?,
            }
        }
    }
    if args.count {
        if args.json {
            writeln!(out, "{{\"count\":{count}}}")?;
        } else {
            writeln!(out, "{count}")?;
        }
    }
    out.flush()?;
    db.close()?;
    Ok(ExitCode::SUCCESS)
}

/// `terrace dump`
pub fn dump(args: &DumpArgs) -> Result<ExitCode> {
    let db = Db::open_existing(&args.open)?;
    let tree = db.tree(args.structure.structure.as_deref())?;
    let mut out = stdout();
    for entry in tree.range(None, None, false)? {
        let (key, value) = entry?;
        writeln!(out, "{}", object(&key, Some(&value)))?;
    }
    out.flush()?;
    db.close()?;
    Ok(ExitCode::SUCCESS)
}

fn object(key: &[u8], value: Option<&[u8]>) -> Value {
    let mut object = Map::new();
    add_field(&mut object, "key", key);
    if let Some(value) = value {
        add_field(&mut object, "value", value);
    }
    Value::Object(object)
}
