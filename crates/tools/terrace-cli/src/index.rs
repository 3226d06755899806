//! The indexes of a table: `index create`, `index drop` and `index list`.

use anyhow::Result;
use serde_json::json;
use std::process::ExitCode;
use std::time::Instant;

use crate::args::{IndexCommand, IndexCreateArgs, IndexDropArgs, IndexListArgs};
use crate::engine::{Db, IndexInfo, Kind};
use crate::output::print;
use crate::progress;

/// `terrace index`
pub fn run(command: &IndexCommand) -> Result<ExitCode> {
    match command {
        IndexCommand::Create(args) => create(args),
        IndexCommand::Drop(args) => drop_index(args),
        IndexCommand::List(args) => list(args),
    }
}

fn create(args: &IndexCreateArgs) -> Result<ExitCode> {
    let db = Db::open_existing(&args.open, args.json)?;
    let spinner = progress::spinner(args.json);
    spinner.set_message("making the index");
    let began = Instant::now();
    let mut rows = 0;
    let made = db.create_index(&args.table, args.index.clone(), |seen| {
        rows = seen;
        spinner.set_message(format!("making the index: {seen} rows"));
    });
    spinner.finish_and_clear();
    // Also after an error: what there is stays whole, and the next opening is quick.
    let closed = db.close();
    made?;
    closed?;
    let seconds = began.elapsed().as_secs_f64();
    print(&if args.json {
        format!("{}\n", json!({ "rows": rows, "seconds": seconds }))
    } else {
        format!("index made over {rows} rows in {seconds:.1} s\n")
    })?;
    Ok(ExitCode::SUCCESS)
}

fn drop_index(args: &IndexDropArgs) -> Result<ExitCode> {
    let db = Db::open_existing(&args.open, args.json)?;
    db.drop_index(&args.table, &args.name)?;
    db.close()?;
    if args.json {
        print(&format!("{}\n", json!({ "dropped": args.name })))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn list(args: &IndexListArgs) -> Result<ExitCode> {
    let db = Db::open_to_read(&args.open, args.json)?;
    let mut text = String::new();
    for index in db.indexes(args.table.as_deref())? {
        let unique = if index.unique { "unique:" } else { "" };
        text += &if args.json {
            format!("{}\n", serde_json::to_value(&index)?)
        } else {
            // As it would be given to `index create`.
            format!("{}={unique}{}\n", index.name, index.source)
        };
    }
    // A right answer is printed also if the closing fails.
    let printed = print(&text);
    db.close()?;
    printed?;
    Ok(ExitCode::SUCCESS)
}

impl Db {
    /// The indexes of a table; of the only one, if no name is given.
    pub fn indexes(&self, table: Option<&str>) -> Result<Vec<IndexInfo>> {
        let tables = self.structures().into_iter();
        let mut tables = tables.filter(|structure| structure.kind == Kind::Table);
        let only = match (tables.next(), tables.next()) {
            (Some(only), None) => Some(only.name),
            _ => None,
        };
        let table = table.or(only.as_deref());
        Ok(self.tree(table)?.table()?.indexes())
    }
}
