//! The structures of a database as wholes: `list`, `drop` and `rename`.

use anyhow::Result;
use serde_json::json;
use std::process::ExitCode;

use crate::args::{DropArgs, ListArgs, RenameArgs};
use crate::engine::{Db, Tiers};
use crate::output::print;
use crate::text::escape;

/// `terrace list`
pub fn list(args: &ListArgs) -> Result<ExitCode> {
    let db = Db::open_to_read(&args.open, args.json)?;
    let mut text = String::new();
    for structure in db.structures() {
        text += &if args.json {
            format!("{}\n", serde_json::to_value(&structure)?)
        } else {
            // What `terrace load` would be told to make it.
            let tiers = if structure.tiers == Tiers::One { 1 } else { 2 };
            let name = escape(structure.name.as_bytes());
            let kind = structure.kind.as_str();
            format!("{name}\t{kind}\t{tiers}\n")
        };
    }
    // A right answer is printed also if the closing fails.
    let printed = print(&text);
    db.close()?;
    printed?;
    Ok(ExitCode::SUCCESS)
}

/// `terrace drop`
pub fn drop_structure(args: &DropArgs) -> Result<ExitCode> {
    let db = Db::open_existing(&args.open, args.json)?;
    db.drop_structure(&args.name)?;
    db.close()?;
    if args.json {
        print(&format!("{}\n", json!({ "dropped": args.name })))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// `terrace rename`
pub fn rename(args: &RenameArgs) -> Result<ExitCode> {
    let db = Db::open_existing(&args.open, args.json)?;
    db.rename_structure(&args.from, &args.to)?;
    db.close()?;
    if args.json {
        print(&format!(
            "{}\n",
            json!({ "from": args.from, "to": args.to })
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}
