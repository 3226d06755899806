//! `backup`, `restore`: points of a database in a set, and databases of them again.

use anyhow::{Result, bail};
use serde_json::json;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::args::{
    BackupCommand, BackupCreateArgs, BackupListArgs, BackupPruneArgs, BackupVerifyArgs,
    CompactArgs, RestoreArgs,
};
use crate::engine::{
    BackupOptions, BackupPoint, CompactOptions, Db, Rate, RestoreOptions, RestoreTo, list_backup,
    prune_backup, restore as restore_set, store_options, verify_backup,
};
use crate::other::Reached;
use crate::output::{print, print_found};
use crate::progress::Late;

/// `terrace backup`
pub fn run(command: &BackupCommand) -> Result<ExitCode> {
    match command {
        BackupCommand::Create(args) => create(args),
        BackupCommand::List(args) => list(args),
        BackupCommand::Verify(args) => verify(args),
        BackupCommand::Prune(args) => prune(args),
    }
}

fn create(args: &BackupCreateArgs) -> Result<ExitCode> {
    let mut db = Reached::find(&args.open, args.json)?;
    let bar = Late::new(args.json);
    let made = match &mut db {
        Reached::Own(db) => {
            let rate = args.rate.map(|rate| Rate::BytesPerSecond(rate.0));
            let options = BackupOptions::new()
                .full(args.full)
                .rate(rate.unwrap_or(Rate::Fast))
                .progress(|progress| bar.show(progress));
            db.backup(&args.set, options)
        }
        Reached::Other(db) => {
            let rate = args.rate.map(|rate| rate.0);
            db.backup(&args.set, args.full, rate, |progress| bar.show(progress))
        }
    };
    bar.clear();
    let made = made?;
    if let Reached::Own(db) = db {
        db.close()?;
    }
    print(&if args.json {
        let object = json!({
            "point": made.point,
            "time": text_of(made.time),
            "sequence": made.sequence,
            "live_pages": made.live_pages,
            "read_pages": made.read_pages,
            "stored_pages": made.stored_pages,
            "stored_bytes": made.stored_bytes,
            "seconds": made.seconds,
        });
        format!("{object}\n")
    } else {
        format!(
            "point {}: {} pages, {} of them stored ({} bytes) in {:.2} s\n",
            made.point, made.live_pages, made.stored_pages, made.stored_bytes, made.seconds
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

fn list(args: &BackupListArgs) -> Result<ExitCode> {
    let points = list_backup(&args.set)?;
    let mut text = String::new();
    if !args.json {
        text += "point  time                          pages  stored bytes  last change\n";
    }
    for point in &points {
        text += &if args.json {
            format!("{}\n", object(point))
        } else {
            format!(
                "{:>5}  {}  {:>10}  {:>12}  {:>11}\n",
                point.point,
                text_of(point.time),
                point.live_pages,
                point.stored_bytes,
                point.sequence
            )
        };
    }
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn object(point: &BackupPoint) -> serde_json::Value {
    json!({
        "point": point.point,
        "time": text_of(point.time),
        "sequence": point.sequence,
        "live_pages": point.live_pages,
        "stored_bytes": point.stored_bytes,
    })
}

fn verify(args: &BackupVerifyArgs) -> Result<ExitCode> {
    let bar = Late::new(args.json);
    let found = verify_backup(&args.set, |progress| bar.show(progress));
    bar.clear();
    let found = found?;
    if args.json {
        let object = json!({ "ok": found.is_clean(), "report": found });
        print_found(&format!("{object}\n"))?;
    } else {
        let mut text = format!(
            "{} points are whole, {} pages were read\n",
            found.whole.len(),
            found.pages
        );
        for leftover in &found.leftovers {
            text += &format!("{leftover} belongs to no point; the next backup deletes it\n");
        }
        for problem in &found.problems {
            text += &format!("{problem}\n");
        }
        print_found(&text)?;
    }
    if !found.is_clean() {
        let damaged: Vec<String> = found.damaged.iter().map(u64::to_string).collect();
        bail!(
            "{} is damaged at point {}: restore another point, and make a new backup with --full",
            args.set.display(),
            damaged.join(", ")
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn prune(args: &BackupPruneArgs) -> Result<ExitCode> {
    let pruned = prune_backup(&args.set, args.keep)?;
    print(&if args.json {
        format!("{}\n", json!(pruned))
    } else {
        format!(
            "{} points forgotten, {} left, {} bytes given back\n",
            pruned.forgotten.len(),
            pruned.kept.len(),
            pruned.freed_bytes
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

/// `terrace compact`
pub fn compact(args: &CompactArgs) -> Result<ExitCode> {
    let db = Db::open_existing(&args.open, args.json)?;
    let bar = Late::new(args.json);
    let options = CompactOptions::new()
        .fill(f64::from(args.fill) / 100.0)
        .rate(Rate::Fast)
        .progress(|progress| bar.show(progress));
    let done = db.compact(options);
    bar.clear();
    let done = done?;
    db.close()?;
    print(&if args.json {
        format!("{}\n", json!(done))
    } else {
        format!(
            "{} pages were {}, the file has {} bytes, and had {}; {:.2} s\n",
            done.pages_after,
            done.pages_before,
            done.file_bytes_after,
            done.file_bytes_before,
            done.seconds
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

/// `terrace restore`
pub fn restore(args: &RestoreArgs) -> Result<ExitCode> {
    let bar = Late::new(args.json);
    let mut options = RestoreOptions::new()
        .options(store_options(args.memory.0))
        .progress(|progress| bar.show(progress));
    if let Some(point) = args.point {
        options = options.to(RestoreTo::Point(point));
    }
    if let Some(name) = &args.structure {
        options = options.structure(name);
    }
    let done = restore_set(&args.set, &args.db, options);
    bar.clear();
    let done = done?;
    print(&if args.json {
        let object = json!({
            "point": object(&done.point),
            "pages": done.pages,
            "structures": done.structures,
            "verified": done.verified,
            "seconds": done.seconds,
        });
        format!("{object}\n")
    } else {
        format!(
            "{} is point {} of {}: {} pages, verified, in {:.2} s\n",
            args.db.display(),
            done.point.point,
            text_of(done.point.time),
            done.pages,
            done.seconds
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

/// A time as people and programs read it: RFC 3339, in UTC, to the millisecond.
fn text_of(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let (seconds, millis) = (since.as_secs(), since.subsec_millis());
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date_of(days);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{millis:03}Z",
        of_day / 3600,
        of_day / 60 % 60,
        of_day % 60
    )
}

/// Year, month and day, so many days after 1 January 1970 (Gregorian).
fn date_of(days: u64) -> (u64, u64, u64) {
    let leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let (mut year, mut left) = (1970, days);
    loop {
        let length = if leap(year) { 366 } else { 365 };
        if left < length {
            break;
        }
        left -= length;
        year += 1;
    }
    let february = if leap(year) { 29 } else { 28 };
    for (month, length) in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
        .into_iter()
        .enumerate()
    {
        if left < length {
            return (year, month as u64 + 1, left + 1);
        }
        left -= length;
    }
    (year, 12, 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_utc() {
        for (seconds, told) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_798_761_599, "2026-12-31T23:59:59.000Z"),
        ] {
            assert_eq!(text_of(UNIX_EPOCH + Duration::from_secs(seconds)), told);
        }
    }
}
