//! `terrace changes`: what is changed, commit by commit.

use anyhow::Result;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use terrace::{ChangeLine, ChangesOptions, CommitLine};

use crate::args::ChangesArgs;
use crate::engine::{Db, Settings};
use crate::other::{Other, Reached};
use crate::output::{stdout, tell};
use crate::text::escape;

/// `terrace changes`
pub fn run(args: &ChangesArgs) -> Result<ExitCode> {
    let settings = Settings {
        memory: args.open.memory.0,
        log_limit: args.open.log_limit.map(|size| size.0),
        keep_changes: args.keep.0,
        ..Settings::default()
    };
    match Reached::or_asked(&args.open, Db::open(&args.open.db, &settings))? {
        Reached::Own(db) => own(*db, args)?,
        Reached::Other(mut db) => other(&mut db, args)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Of a database that no other process has open, so that nothing new can come.
fn own(db: Db, args: &ChangesArgs) -> Result<()> {
    let mut options = ChangesOptions::new().until_now();
    if let Some(place) = args.from {
        options = options.from(place);
    }
    let changes = db.inner.changes(options)?;
    let mut told = show(&CommitLine::from(changes.place()), args.json);
    for commit in changes {
        if told.is_err() {
            break;
        }
        told = show(&CommitLine::from(&commit?), args.json);
    }
    db.close()?;
    told
}

fn other(db: &mut Other, args: &ChangesArgs) -> Result<()> {
    let from = args.from.map(|place| place.to_string());
    let mut told = Ok(());
    db.changes(from.as_deref(), args.until_now, |commit| {
        told = show(&commit, args.json);
        told.is_ok()
    })?;
    told
}

fn show(commit: &CommitLine, json: bool) -> Result<()> {
    let mut out = stdout();
    if json {
        writeln!(out, "{}", serde_json::to_string(commit)?)?;
    } else {
        if commit.changes.is_empty() {
            tell(&format!(
                "behind change {}; --json says the place to go on from",
                commit.sequence
            ));
        }
        for change in &commit.changes {
            writeln!(out, "{}", line(commit.sequence, change))?;
        }
    }
    match out.flush() {
        Err(e) if e.kind() != ErrorKind::Interrupted => Err(e.into()),
        _ => Ok(()),
    }
}

/// A change for people: its commit, what it does, the structure, key and value.
fn line(sequence: u64, change: &ChangeLine) -> String {
    let text = |plain: &Option<String>, hex: &Option<String>| match (plain, hex) {
        (Some(text), _) => Some(escape(text.as_bytes())),
        (None, Some(hex)) => Some(format!("0x{hex}")),
        (None, None) => None,
    };
    let structure = change
        .structure
        .as_deref()
        .map(|name| escape(name.as_bytes()));
    let structure = structure.or_else(|| change.id.map(|id| format!("(dropped, number {id})")));
    let key = text(&change.key, &change.key_hex);
    let value = text(&change.value, &change.value_hex).map(|value| format!("= {value}"));
    let mark = change.mark.as_ref().map(|name| escape(name.as_bytes()));
    let expires = change.expires_ms.map(|ms| format!("expires {ms}"));
    let parts = [structure, key, value, expires, change.kind.clone(), mark];
    let rest: Vec<String> = parts.into_iter().flatten().collect();
    format!("{sequence} {} {}", change.op, rest.join(" "))
}
