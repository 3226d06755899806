//! The database as a whole: `stat`, `verify` and `checkpoint`.

use anyhow::{Result, bail};
use serde_json::json;
use std::process::ExitCode;
use std::time::Instant;

use crate::args::{CheckpointArgs, StatArgs, VerifyArgs};
use crate::engine::Db;
use crate::output::{print, print_found};
use crate::progress::Late;

/// `terrace stat`
pub fn stat(args: &StatArgs) -> Result<ExitCode> {
    let db = Db::open_existing(&args.open, args.json)?;
    let text = if args.json {
        db.stats_json()?.to_string()
    } else {
        db.stats_text()?
    };
    // Printed first: a right answer is one also if the closing fails. And closed whether or not anybody
    // reads it: how a command ends does not depend on that.
    let printed = print(&format!("{}\n", text.trim_end()));
    db.close()?;
    printed?;
    Ok(ExitCode::SUCCESS)
}

/// `terrace verify`
pub fn verify(args: &VerifyArgs) -> Result<ExitCode> {
    let db = Db::open_existing(&args.open, args.json)?;
    let bar = Late::new(args.json);
    let verified = db.verify(|progress| bar.show(progress));
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
    db.close()?;
    Ok(ExitCode::SUCCESS)
}

/// `terrace checkpoint`
pub fn checkpoint(args: &CheckpointArgs) -> Result<ExitCode> {
    let db = Db::open_existing(&args.open, args.json)?;
    let began = Instant::now();
    let bar = Late::new(args.json);
    let done = db.checkpoint(|progress| bar.show(progress));
    bar.clear();
    done?;
    let seconds = began.elapsed().as_secs_f64();
    db.close()?;
    print(&if args.json {
        format!("{}\n", json!({ "seconds": seconds }))
    } else {
        format!("checkpoint written in {seconds:.2} s\n")
    })?;
    Ok(ExitCode::SUCCESS)
}
