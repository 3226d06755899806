//! The database as a whole: `stat`, `verify` and `checkpoint`.

use anyhow::{Result, bail};
use serde_json::json;
use std::process::ExitCode;
use std::time::Instant;

use crate::args::{CheckpointArgs, StatArgs, VerifyArgs};
use crate::other::Reached;
use crate::output::{print, print_found};
use crate::progress::Late;

/// `terrace stat`
pub fn stat(args: &StatArgs) -> Result<ExitCode> {
    let mut db = Reached::find_to_read(&args.open, args.json)?;
    let text = match (&mut db, args.json) {
        (Reached::Own(db), true) => db.stats_json()?.to_string(),
        (Reached::Own(db), false) => db.stats_text()?,
        (Reached::Other(db), true) => db.stats_json()?.to_string(),
        (Reached::Other(db), false) => db.stats_text()?,
    };
    // Printed first: a right answer is one also if the closing fails. And closed whether or not a
    // process reads it: how a command ends does not depend on that.
    let printed = print(&format!("{}\n", text.trim_end()));
    if let Reached::Own(db) = db {
        db.close()?;
    }
    printed?;
    Ok(ExitCode::SUCCESS)
}

/// `terrace verify`
pub fn verify(args: &VerifyArgs) -> Result<ExitCode> {
    let mut db = match args.reclaim {
        true => Reached::find(&args.open, args.json)?,
        false => Reached::find_to_read(&args.open, args.json)?,
    };
    let bar = Late::new(args.json);
    if args.reclaim {
        let Reached::Own(db) = &db else {
            bail!("the database is open elsewhere; close it there to get lost space back");
        };
        let pages = db.reclaim()?;
        if !args.json && pages > 0 {
            print_found(&format!("{pages} pages that belonged to nobody are free\n"))?;
        }
    }
    let verified = match &mut db {
        Reached::Own(db) => db.verify(|progress| bar.show(progress)),
        Reached::Other(db) => db.verify(|progress| bar.show(progress)),
    };
    bar.clear();
    let verified = verified?;
    if args.json {
        let object = json!({ "ok": verified.is_clean, "report": verified.json });
        print_found(&format!("{object}\n"))?;
    } else {
        print_found(&verified.text)?;
    }
    if !verified.is_clean {
        bail!(
            "{} is damaged: restore it from a backup; without one, `terrace dump` saves what can be \
             read of a structure from both ends up to the damage",
            args.open.db.display()
        );
    }
    if let Reached::Own(db) = db {
        db.close()?;
    }
    Ok(ExitCode::SUCCESS)
}

/// `terrace checkpoint`
pub fn checkpoint(args: &CheckpointArgs) -> Result<ExitCode> {
    let db = Reached::find(&args.open, args.json)?;
    let bar = Late::new(args.json);
    let seconds = match db {
        Reached::Own(db) => {
            let began = Instant::now();
            let done = db.checkpoint(|progress| bar.show(progress));
            bar.clear();
            done?;
            let seconds = began.elapsed().as_secs_f64();
            db.close()?;
            seconds
        }
        Reached::Other(mut db) => {
            let done = db.checkpoint(|progress| bar.show(progress));
            bar.clear();
            done?
        }
    };
    print(&if args.json {
        format!("{}\n", json!({ "seconds": seconds }))
    } else {
        format!("checkpoint written in {seconds:.2} s\n")
    })?;
    Ok(ExitCode::SUCCESS)
}
