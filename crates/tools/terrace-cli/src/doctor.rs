//! `terrace doctor`: what of this machine would bite a database at this place, and what to do about it.
//!
//! It opens no database, and leaves nothing behind.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use serde_json::json;
use terrace::{FileDisk, ReadsTogether};

use crate::args::DatabaseDoctorArgs;
use crate::output::print_found;

/// Syncs that are timed; the middle one counts.
const SYNCS: usize = 9;
/// Faster than this no disk is written: something says that it is and is not.
const TOO_FAST: Duration = Duration::from_micros(15);
/// Slower than this, whoever waits for each commit feels it.
const SLOW: Duration = Duration::from_millis(10);
/// Files that a database has open, with some room: data, log, sets, sockets.
const LEAST_FILES: u64 = 256;
/// Memory of the process beside what is Terrace's: code, stacks, the allocator's holes.
const BESIDE: u64 = 32 << 20;

/// How much a finding matters.
#[derive(Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
enum Weight {
    Good,
    Note,
    Bad,
}

/// One thing that was looked at.
#[derive(serde::Serialize)]
struct Finding {
    what: &'static str,
    weight: Weight,
    text: String,
}

fn good(what: &'static str, text: String) -> Finding {
    let weight = Weight::Good;
    Finding { what, weight, text }
}

fn note(what: &'static str, text: String) -> Finding {
    let weight = Weight::Note;
    Finding { what, weight, text }
}

fn bad(what: &'static str, text: String) -> Finding {
    let weight = Weight::Bad;
    Finding { what, weight, text }
}

/// `terrace doctor`: ends with 1 if something is bad.
pub fn run(args: &DatabaseDoctorArgs) -> Result<ExitCode> {
    let folder = nearest_folder(&args.db)?;
    let mut findings = vec![file_system(&folder)?];
    findings.extend(disk(&folder));
    findings.push(space(&folder, &args.db)?);
    findings.push(memory(args.memory.0));
    findings.extend(swap());
    findings.push(files());
    findings.push(reads_together());
    findings.push(huge_pages());
    findings.push(clock(&args.db));
    let bads = findings.iter().any(|f| f.weight == Weight::Bad);
    let mut text = String::new();
    if args.json {
        text = format!("{}\n", json!({ "good": !bads, "findings": findings }));
    } else {
        for Finding {
            what,
            weight,
            text: t,
        } in &findings
        {
            let mark = match weight {
                Weight::Good => "good",
                Weight::Note => "note",
                Weight::Bad => "BAD ",
            };
            text += &format!("{mark}  {what:<12}  {t}\n");
        }
    }
    print_found(&text)?;
    Ok(if bads {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// The folder, or the nearest one above it that is there.
fn nearest_folder(db: &Path) -> Result<PathBuf> {
    let whole = std::path::absolute(db)?;
    let there = whole.ancestors().find(|path| path.is_dir());
    there
        .map(Path::to_owned)
        .context("there is no folder above it")
}

/// Names of file systems by what `statfs` says of them, and what is to be known of each.
fn file_system(folder: &Path) -> Result<Finding> {
    let what = "file system";
    let kind = rustix::fs::statfs(folder).with_context(|| format!("{}", folder.display()))?;
    // As in linux/magic.h.
    Ok(match kind.f_type as u32 {
        0xEF53 => good(what, "ext4".into()),
        0x5846_5342 => good(what, "XFS".into()),
        0xF2F5_2010 => good(what, "F2FS".into()),
        0x9123_683E => note(
            what,
            "Btrfs: it copies on every write, and the data file falls into pieces; `chattr +C` on the empty folder before \
             the database is made spares that"
                .into(),
        ),
        0x2FC1_2FC1 => note(
            what,
            "ZFS: it copies on every write, and keeps pages in a cache of its own beside the memory that is given here; a \
             recordsize of 16K on the dataset suits the data file"
                .into(),
        ),
        0x794C_7630 => note(
            what,
            "an overlay, as containers have it: what is written here goes with the container; put the database on a volume"
                .into(),
        ),
        0x0102_1994 => note(what, "in memory (tmpfs): nothing survives a restart".into()),
        0x6969 | 0xFF53_4D42 | 0xFE53_4D42 | 0x517B => bad(
            what,
            "on the network: two machines may open the database at a time, and a sync may not reach the disk; use a disk of \
             this machine"
                .into(),
        ),
        0x6573_5546 => note(
            what,
            "by a program (FUSE): whether a sync reaches the disk is up to that program".into(),
        ),
        other => note(what, format!("one that is not known here ({other:#x})")),
    })
}

/// Whether files can be made here, read past the cache, and made durable in a time that makes sense.
fn disk(folder: &Path) -> Vec<Finding> {
    let path = folder.join(format!(".terrace-doctor-{}", std::process::id()));
    let found = try_disk(&path);
    // It may not be there.
    let _ = fs::remove_file(&path);
    found.unwrap_or_else(|e| {
        let text = format!(
            "no file can be made in {}: {e}; give its owner the right to write, or choose another folder",
            folder.display()
        );
        vec![bad("disk", text)]
    })
}

fn try_disk(path: &Path) -> std::io::Result<Vec<Finding>> {
    let file = File::create_new(path)?;
    let page = [0; 4096];
    let mut times = Vec::new();
    for _ in 0..SYNCS {
        std::os::unix::fs::FileExt::write_all_at(&file, &page, 0)?;
        let began = Instant::now();
        file.sync_data()?;
        times.push(began.elapsed());
    }
    times.sort_unstable();
    let middle = times[SYNCS / 2];
    let shown = format!("{:.2} ms", middle.as_secs_f64() * 1000.0);
    let sync = if middle < TOO_FAST {
        note(
            "sync",
            format!(
                "{shown}: no disk is so fast; something between says that data is durable when it is not, and a power cut may \
                 lose what was acknowledged"
            ),
        )
    } else if middle > SLOW {
        note(
            "sync",
            format!(
                "{shown}: who waits for each commit makes few a second; commit in batches, or buffered"
            ),
        )
    } else {
        good(
            "sync",
            format!("{shown} for a commit that waits for the disk"),
        )
    };
    let direct = OpenOptions::new()
        .read(true)
        .custom_flags(rustix::fs::OFlags::DIRECT.bits() as i32)
        .open(path);
    let direct = match direct {
        Ok(_) => good("direct I/O", "there is: no page is in memory twice".into()),
        Err(_) => note(
            "direct I/O",
            "there is none here: the system's cache keeps pages beside the memory that is given to the database".into(),
        ),
    };
    Ok(vec![sync, direct])
}

fn space(folder: &Path, db: &Path) -> Result<Finding> {
    let at = rustix::fs::statvfs(folder).with_context(|| format!("{}", folder.display()))?;
    let free = at.f_bavail.saturating_mul(at.f_frsize);
    let data = fs::metadata(db.join("data")).map_or(0, |data| data.len());
    let shown = format!("{} free", size(free));
    // What a checkpoint and a log need beside the data, about.
    let least = (data / 4).max(512 << 20);
    Ok(match free < least {
        true => note(
            "space",
            format!(
                "{shown}, and a log and checkpoints may need {} beside the data",
                size(least)
            ),
        ),
        false => good("space", shown),
    })
}

/// The memory that there is, with the limit of the group of processes that this one is in.
fn memory(wanted: u64) -> Finding {
    let what = "memory";
    let available = number_of("/proc/meminfo", "MemAvailable:").map(|kib| kib << 10);
    let (limit, of_group) = match (available, group_limit()) {
        (Some(available), Some(limit)) if limit < available => (limit, " for this group (cgroup)"),
        (Some(available), _) => (available, ""),
        (None, Some(limit)) => (limit, " for this group (cgroup)"),
        (None, None) => return note(what, "/proc does not say how much there is".into()),
    };
    let shown = format!(
        "{} are there{of_group}, {} are asked for",
        size(limit),
        size(wanted)
    );
    match wanted.saturating_add(BESIDE) > limit {
        true => bad(
            what,
            format!(
                "{shown}: the system will end the process when it takes them; give less with --memory"
            ),
        ),
        false => good(what, shown),
    }
}

/// The least limit of memory of the groups that this process is in, in cgroup v2.
fn group_limit() -> Option<u64> {
    let group = fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = group.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let root = Path::new("/sys/fs/cgroup");
    let path = root.join(group);
    let groups = path.ancestors().take_while(|path| path.starts_with(root));
    let limits = groups.filter_map(|path| fs::read_to_string(path.join("memory.max")).ok());
    limits.filter_map(|text| text.trim().parse().ok()).min()
}

fn swap() -> Option<Finding> {
    let total = number_of("/proc/meminfo", "SwapTotal:")?;
    let text = "there is some: the system may write records out that the database keeps in memory, and reads of them wait; \
                give the service none (MemorySwapMax=0 in systemd)";
    (total > 0).then(|| note("swap", text.into()))
}

fn files() -> Finding {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    match limit {
        Some(limit) if limit < LEAST_FILES => bad(
            "open files",
            format!(
                "{limit} at most: a database with a log and backups may need {LEAST_FILES}; raise it with `ulimit -n`"
            ),
        ),
        Some(limit) => good("open files", format!("{limit} at most")),
        None => good("open files", "any number".into()),
    }
}

fn reads_together() -> Finding {
    let what = "reads together";
    match FileDisk::reads_together() {
        ReadsTogether::Ring => good(what, "by io_uring: one thread has many under way".into()),
        ReadsTogether::Threads => note(
            what,
            "by threads, which take twice the processor: io_uring is forbidden here, or the kernel has none (allow io_uring_setup and io_uring_enter in the container's seccomp profile, and set kernel.io_uring_disabled to 0)".into(),
        ),
    }
}

fn huge_pages() -> Finding {
    let what = "huge pages";
    let path = "/sys/kernel/mm/transparent_hugepage/enabled";
    let text = fs::read_to_string(path).unwrap_or_default();
    match text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
    {
        Some(("never", _)) => note(
            what,
            format!("never: reads of many frames take a fifth longer; write `madvise` to {path}"),
        ),
        Some((mode, _)) => good(what, mode.into()),
        None => note(what, format!("{path} does not say whether there are any")),
    }
}

/// Times of files of the database that are still to come: the clock has gone back.
fn clock(db: &Path) -> Finding {
    let what = "clock";
    let names = fs::read_dir(db).into_iter().flatten().flatten();
    let times = names.filter_map(|entry| entry.metadata().ok()?.modified().ok());
    let ahead = times
        .max()
        .and_then(|t| t.duration_since(SystemTime::now()).ok());
    match ahead.filter(|ahead| ahead.as_secs() > 1) {
        Some(ahead) => note(
            what,
            format!(
                "files of the database are from {} s to come: the clock has gone back, and restores to a time will ask which \
                 of two changes is meant",
                ahead.as_secs()
            ),
        ),
        None => good(what, "not behind the files that are here".into()),
    }
}

/// The number behind a name in a file of lines.
fn number_of(path: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

fn size(bytes: u64) -> String {
    indicatif::BinaryBytes(bytes).to_string()
}
