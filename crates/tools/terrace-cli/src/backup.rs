//! `backup`, `restore`: points of a database in a set, and databases of them again.

use anyhow::{Result, bail};
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::args::{
    BackupCommand, BackupCreateArgs, BackupFollowArgs, BackupListArgs, BackupPruneArgs,
    BackupVerifyArgs, CompactArgs, MarkArgs, Open, RestoreArgs, rate_of,
};
use crate::engine::backups::{
    BackupOptions, BackupPoint, ClockLeap, CompactOptions, ExpiredPart, FollowOptions,
    FollowStatus, Keep, RestoreOptions, RestoreTo, backup_contents, prune_backup,
    restore as restore_set, text_of, verify_backup,
};
use crate::engine::store_options;
use crate::other::{Other, Reached};
use crate::output::{print, print_found};
use crate::progress::Late;

/// `terrace backup`
pub fn run(command: &BackupCommand) -> Result<ExitCode> {
    match command {
        BackupCommand::Create(args) => create(args),
        BackupCommand::Follow(args) => follow(args),
        BackupCommand::List(args) => list(args),
        BackupCommand::Verify(args) => verify(args),
        BackupCommand::Prune(args) => prune(args),
    }
}

fn create(args: &BackupCreateArgs) -> Result<ExitCode> {
    if args.follow {
        return begin_to_follow(&args.open, &args.set, &FollowOptions::new(), args.json);
    }
    let mut db = Reached::find_to_back_up(&args.open, args.json)?;
    let bar = Late::new(args.json);
    let made = match &mut db {
        Reached::Own(db) => {
            let mut options = BackupOptions::new()
                .full(args.full)
                .rate(rate_of(args.rate, false))
                .progress(|progress| bar.show(progress));
            if let Some(name) = &args.mark {
                options = options.mark(name);
            }
            db.backup(&args.set, options)
        }
        Reached::Other(db) => {
            let how = (rate_of(args.rate, true), args.mark.as_deref());
            db.backup(&args.set, args.full, how, |progress| bar.show(progress))
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

/// `terrace backup follow`
fn follow(args: &BackupFollowArgs) -> Result<ExitCode> {
    match &args.set {
        Some(set) if args.stop => {
            let status = who_has_it_open(&args.open)?.stop_following(set)?;
            print_following(&[status], args.json)
        }
        Some(set) => {
            let mut options = FollowOptions::new();
            if let Some(every) = args.every {
                options = options.every(every);
            }
            if let Some(bytes) = args.point_after {
                options = options.point_after(bytes.0);
            }
            if let Some(rate) = args.rate {
                options = options.rate(rate);
            }
            begin_to_follow(&args.open, set, &options, args.json)
        }
        None => {
            let following = who_has_it_open(&args.open)?.following()?;
            if following.is_empty() && !args.json {
                print("the log is copied to no backup set\n")?;
            }
            print_following(&following, args.json)
        }
    }
}

fn who_has_it_open(open: &Open) -> Result<Other> {
    let Some(db) = Other::find(&open.db)? else {
        bail!(
            "nobody answers who has {} open: only a process that has it open with Options::control(true) \
             can follow its log; a database that is closed is backed up with `terrace backup create`",
            open.db.display()
        );
    };
    Ok(db)
}

/// Has the log copied by the process that has the database open.
fn begin_to_follow(
    open: &Open,
    set: &Path,
    options: &FollowOptions,
    json: bool,
) -> Result<ExitCode> {
    let status = who_has_it_open(open)?.follow(set, options)?;
    print(&if json {
        format!("{}\n", json!(status))
    } else {
        format!(
            "the log is copied to {} from change {} on, until the database is closed\n",
            set.display(),
            status.sequence
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

fn print_following(all: &[FollowStatus], json: bool) -> Result<ExitCode> {
    let mut text = String::new();
    for status in all {
        if json {
            text += &format!("{}\n", json!(status));
            continue;
        }
        let set = status.set.as_ref();
        let set = set.map_or("a set".into(), |set| set.display().to_string());
        let time = status.time.map_or("-".into(), text_of);
        text += &format!(
            "{set}: change {} of {time}, {} bytes of log, {} breaks\n",
            status.sequence, status.log_bytes, status.breaks
        );
        if status.clock_leaps > 0 {
            let leaps = status.clock_leaps;
            text += &format!(
                "  the clock went back {leaps} times: `terrace backup list` shows where\n"
            );
        }
        if let Some(error) = &status.error {
            text += &format!("  the last attempt failed, and is tried again: {error}\n");
        }
    }
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// `terrace mark`
pub fn mark(args: &MarkArgs) -> Result<ExitCode> {
    let mark = match Reached::find(&args.open, args.json)? {
        Reached::Own(db) => {
            let mark = db.mark(&args.name)?;
            db.close()?;
            mark
        }
        Reached::Other(mut db) => db.mark(&args.name)?,
    };
    print(&if args.json {
        let (name, time) = (&mark.name, text_of(mark.time));
        let object = json!({ "name": name, "time": time, "sequence": mark.sequence });
        format!("{object}\n")
    } else {
        format!(
            "{} is change {}, {}\n",
            mark.name,
            mark.sequence,
            text_of(mark.time)
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

fn list(args: &BackupListArgs) -> Result<ExitCode> {
    let set = backup_contents(&args.set)?;
    let mut text = String::new();
    if !args.json {
        text += "point  time                          pages  stored bytes  last change\n";
    }
    for point in &set.points {
        text += &if args.json {
            format!("{}\n", object(point))
        } else {
            format!(
                "{:>5}  {}  {:>10}  {:>12}  {:>11}{}\n",
                point.point,
                text_of(point.time),
                point.live_pages,
                point.stored_bytes,
                point.sequence,
                point
                    .mark
                    .as_ref()
                    .map_or(String::new(), |name| format!("  {name}"))
            )
        };
    }
    for log in &set.logs {
        let until = log.until.map(text_of);
        let marks = log.marks.iter().map(|mark| {
            json!({ "name": mark.name, "time": text_of(mark.time), "sequence": mark.sequence })
        });
        let marks: Vec<_> = marks.collect();
        if args.json {
            let (first, last, bytes) = (log.first, log.last, log.bytes);
            let points = set
                .points
                .iter()
                .filter(|point| point.chain == Some(log.chain));
            let points: Vec<u64> = points.map(|point| point.point).collect();
            let leaps: Vec<_> = log.leaps.iter().map(leap_object).collect();
            let object = json!({
                "log": log.chain, "first": first, "last": last, "until": until,
                "bytes": bytes, "points": points, "marks": marks, "clock_leaps": leaps,
            });
            text += &format!("{object}\n");
            continue;
        }
        let is_reached = |point: &BackupPoint| {
            point.chain == Some(log.chain)
                && (log.first..=log.last + 1).contains(&(point.sequence + 1))
        };
        text += &format!(
            "log of changes {} to {}, until {} ({} bytes){}\n",
            log.first,
            log.last,
            until.as_deref().unwrap_or("then"),
            log.bytes,
            match set.points.iter().any(is_reached) {
                true => "",
                false => "; no point leads to it",
            }
        );
        for leap in &log.leaps {
            text += &format!("  {}\n", told_leap(leap));
        }
        for mark in &log.marks {
            let time = text_of(mark.time);
            text += &format!("  mark {} at change {}, {time}\n", mark.name, mark.sequence);
        }
    }
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn told_leap(leap: &ClockLeap) -> String {
    format!(
        "the clock went back at change {}, from {} to {}: times up to then are there twice",
        leap.sequence,
        text_of(leap.from),
        text_of(leap.to)
    )
}

fn leap_object(leap: &ClockLeap) -> serde_json::Value {
    json!({ "sequence": leap.sequence, "from": text_of(leap.from), "to": text_of(leap.to) })
}

fn object(point: &BackupPoint) -> serde_json::Value {
    json!({
        "point": point.point,
        "time": text_of(point.time),
        "sequence": point.sequence,
        "live_pages": point.live_pages,
        "stored_bytes": point.stored_bytes,
        "mark": point.mark,
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
            "{} points are whole, {} pages and {} changes of the log were read\n",
            found.whole.len(),
            found.pages,
            found.records
        );
        if let Some((first, last)) = found.unreached {
            text += &format!(
                "changes {first} to {last} are in the set, and no point leads to them: they cannot be restored\n"
            );
        }
        for leftover in &found.leftovers {
            text += &format!("{leftover} belongs to no point; the next backup deletes it\n");
        }
        for problem in &found.problems {
            text += &format!("{problem}\n");
        }
        if found.more_problems > 0 {
            text += &format!("and {} more problems\n", found.more_problems);
        }
        print_found(&text)?;
    }
    if !found.is_clean() {
        let damaged: Vec<String> = found.damaged.iter().map(u64::to_string).collect();
        if found.problems.is_empty() {
            bail!(
                "the newest changes in {} cannot be restored: the log was given up before them, and no point \
                 has been made since; have the database make one, with `terrace backup create` or by \
                 following on",
                args.set.display()
            );
        }
        if damaged.is_empty() {
            bail!(
                "the log in {} is damaged: restore a point, and make a new backup",
                args.set.display()
            );
        }
        bail!(
            "{} is damaged at point {}: restore another point, and make a new backup with --full",
            args.set.display(),
            damaged.join(", ")
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn prune(args: &BackupPruneArgs) -> Result<ExitCode> {
    let mut keep = Keep::newest(args.keep.unwrap_or(1));
    if let Some(age) = args.keep_for {
        keep = keep.since(SystemTime::now().checked_sub(age).unwrap_or(UNIX_EPOCH));
    }
    let pruned = prune_backup(&args.set, keep)?;
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
    let mut db = Reached::find(&args.open, args.json)?;
    let bar = Late::new(args.json);
    let fill = f64::from(args.fill) / 100.0;
    let done = match &mut db {
        Reached::Own(db) => {
            let options = CompactOptions::new()
                .fill(fill)
                .rate(rate_of(args.rate, false))
                .progress(|progress| bar.show(progress));
            db.compact(options)
        }
        Reached::Other(db) => {
            let rate = rate_of(args.rate, true);
            db.compact(fill, rate, |progress| bar.show(progress))
        }
    };
    bar.clear();
    let done = done?;
    if let Reached::Own(db) = db {
        db.close()?;
    }
    let text = if args.json {
        format!("{}\n", json!(done))
    } else {
        let mut text = format!(
            "{} pages were {}, the file has {} bytes, and had {}; {:.2} s\n",
            done.pages_after,
            done.pages_before,
            done.file_bytes_after,
            done.file_bytes_before,
            done.seconds
        );
        if done.unreadable > 0 {
            text += &format!(
                "{} structures have pages that cannot be read, and are compacted in part: see `terrace verify`\n",
                done.unreadable
            );
        }
        text
    };
    if done.unreadable > 0 {
        print_found(&text)?;
        return Ok(ExitCode::FAILURE);
    }
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// How much of a structure has expired, as JSON.
fn expired_object(one: &ExpiredPart) -> Value {
    json!({ "structure": one.structure, "part": one.part })
}

/// `terrace restore`
pub fn restore(args: &RestoreArgs) -> Result<ExitCode> {
    let bar = Late::new(args.json);
    let mut options = RestoreOptions::new()
        .options(store_options(args.memory.0))
        .progress(|progress| bar.show(progress));
    let to = match (args.point, args.to_time, args.to_sequence, &args.to_mark) {
        (Some(point), ..) => RestoreTo::Point(point),
        (_, Some(time), ..) => RestoreTo::Time(time),
        (.., Some(sequence), _) => RestoreTo::Sequence(sequence),
        (.., Some(name)) => RestoreTo::Mark(name.clone()),
        _ => RestoreTo::Latest,
    };
    options = options
        .to(to)
        .verify(!args.no_verify)
        .up_to_break(args.up_to_break);
    if let Some(name) = &args.structure {
        options = options.structure(name);
    }
    let done = restore_set(&args.set, &args.db, options);
    bar.clear();
    let done = done?;
    print(&if args.json {
        let object = json!({
            "point": object(&done.point),
            "sequence": done.sequence,
            "time": text_of(done.time),
            "replayed": done.replayed,
            "as_of_point": done.as_of_point,
            "lost_indexes": done.lost_indexes,
            "clock_leaps": done.clock_leaps.iter().map(leap_object).collect::<Vec<_>>(),
            "expired": done.expired.iter().map(expired_object).collect::<Vec<_>>(),
            "pages": done.pages,
            "structures": done.structures,
            "verified": done.verified,
            "seconds": done.seconds,
        });
        format!("{object}\n")
    } else {
        let mut text = format!(
            "{} is as it was after change {}, {}: {} pages of point {}, {} changes behind it, {}, in {:.2} s\n",
            args.db.display(),
            done.sequence,
            text_of(done.time),
            done.pages,
            done.point.point,
            done.replayed,
            if done.verified {
                "verified"
            } else {
                "not verified"
            },
            done.seconds
        );
        for leap in &done.clock_leaps {
            text += &format!("{}\n", told_leap(leap));
        }
        for name in &done.as_of_point {
            text += &format!("{name} has no log: it is as it was at that point\n");
        }
        for name in &done.lost_indexes {
            text += &format!(
                "the index {name} was made behind that point over a table without log: make it again\n"
            );
        }
        for one in &done.expired {
            text += &format!(
                "of {} about {:.0} % has expired, and is gone for readers\n",
                one.structure,
                100.0 * one.part
            );
        }
        text
    })?;
    Ok(ExitCode::SUCCESS)
}
