//! Maps in persistent memory: files, where databases are folders.

mod bench;
mod map;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::json;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::ExitCode;

use crate::args::{
    DeleteArgs, DumpArgs, GetArgs, LoadArgs, PutArgs, ScanArgs, StatArgs, VerifyArgs,
};
use crate::engine::KeyRange;
use crate::entries::{Shown, not_there, object, print_value, value_from, write_dumped};
use crate::load::open;
use crate::output::{print, print_found, stdout, told_once};
use crate::text::given;
pub use bench::run as bench;
use map::{Map, is_malformed};

/// Whether a path is a map and not a database: a file, or a device.
pub fn is_map(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|about| about.is_file() || about.file_type().is_char_device())
}

fn whole_map(structure: Option<&str>, index: Option<&str>) -> Result<()> {
    if structure.is_some() || index.is_some() {
        bail!("a map in persistent memory has no structures and no indexes: it is one");
    }
    Ok(())
}

/// `terrace get`
pub fn get(args: &GetArgs) -> Result<ExitCode> {
    whole_map(args.structure.structure.as_deref(), args.index.as_deref())?;
    let key = given(&args.key, args.hex)?;
    let map = Map::open(&args.open.db, args.open.memory.0)?;
    let value = map.get(&key)?;
    let printed = match &value {
        Some(value) => print_value(args, &key, value),
        None => Ok(()),
    };
    map.close()?;
    printed?;
    Ok(match value {
        Some(_) => ExitCode::SUCCESS,
        None => not_there(&args.key),
    })
}

/// `terrace put`
pub fn put(args: &PutArgs) -> Result<ExitCode> {
    whole_map(args.structure.as_deref(), None)?;
    let key = given(&args.key, args.hex)?;
    let value = if args.value == "-" {
        value_from(std::io::stdin().lock(), args.hex)?
    } else {
        given(&args.value, args.hex)?
    };
    let map = Map::open_or_make(&args.open.db, args.open.memory.0, &args.pm)?;
    map.put(&key, &value)?;
    map.close()?;
    if args.json {
        let mut object = object(&key, None);
        object["value_bytes"] = value.len().into();
        print(&format!("{object}\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// `terrace delete`
pub fn delete(args: &DeleteArgs) -> Result<ExitCode> {
    whole_map(args.structure.structure.as_deref(), None)?;
    let Some(named) = &args.key else {
        bail!("ranges of maps in persistent memory are not removed; delete one key at a time");
    };
    let key = given(named, args.hex)?;
    let map = Map::open(&args.open.db, args.open.memory.0)?;
    let was_there = map.remove(&key)?;
    map.close()?;
    if args.json {
        let mut object = object(&key, None);
        object["was_there"] = was_there.into();
        print_found(&format!("{object}\n"))?;
    }
    Ok(if was_there {
        ExitCode::SUCCESS
    } else {
        not_there(named)
    })
}

/// `terrace scan`
pub fn scan(args: &ScanArgs) -> Result<ExitCode> {
    whole_map(args.structure.structure.as_deref(), args.index.as_deref())?;
    let bytes = |text: &Option<String>| text.as_deref().map(|t| given(t, args.hex)).transpose();
    let keys = KeyRange {
        prefix: bytes(&args.prefix)?,
        from: bytes(&args.from)?,
        to: bytes(&args.to)?,
        reverse: args.reverse,
    };
    let map = Map::open(&args.open.db, args.open.memory.0)?;
    let entries = map.range(&keys)?;
    let limit = args
        .limit
        .map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
    if args.count {
        let mut count = 0u64;
        for entry in entries.take(limit) {
            entry?;
            count += 1;
        }
        print(&if args.json {
            format!("{{\"count\":{count}}}\n")
        } else {
            format!("{count}\n")
        })?;
    } else {
        let shown = Shown {
            json: args.json,
            hex: args.hex,
            values: !args.keys_only,
            index: false,
        };
        shown.all(entries, limit)?;
    }
    map.close()?;
    Ok(ExitCode::SUCCESS)
}

/// `terrace dump`
pub fn dump(args: &DumpArgs) -> Result<ExitCode> {
    use std::io::Write;
    whole_map(args.structure.structure.as_deref(), None)?;
    if args.all {
        bail!("a map has no structures: leave --all out");
    }
    let map = Map::open(&args.open.db, args.open.memory.0)?;
    let mut out = stdout();
    let all = KeyRange {
        prefix: None,
        from: None,
        to: None,
        reverse: false,
    };
    let (count, damage) = write_dumped(&mut out, map.range(&all)?.map(|entry| Ok((entry?, None))))?;
    out.flush()?;
    map.close()?;
    if let Some(damage) = damage {
        bail!(
            "{count} records were read, and then: {}",
            told_once(&damage)
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// `terrace load`
pub fn load(args: &LoadArgs) -> Result<ExitCode> {
    let (mut source, _) = open(args)?;
    let several = || {
        anyhow!(
            "the dump is of structures of a database, and a map is none: load it into a database"
        )
    };
    if source.part()?.is_some() {
        bail!(several());
    }
    let map = Map::open_or_make(&args.open.db, args.open.memory.0, &args.pm)?;
    let began = std::time::Instant::now();
    let (mut records, mut bytes, mut bad) = (0u64, 0u64, 0u64);
    while let Some((line, record)) = source.next()? {
        let put = record.and_then(|(key, value)| {
            map.put(&key, &value)?;
            Ok(key.len() + value.len())
        });
        match put {
            Ok(len) => {
                records += 1;
                bytes += len as u64;
            }
            Err(error) if args.skip_bad && is_malformed(&error) => bad += 1,
            Err(error) if !is_malformed(&error) => {
                // The map itself: a full file, too little memory, a failed sync.
                let done = format!("{records} records are loaded, and then");
                return Err(error).context(done);
            }
            Err(error) => {
                return Err(error).with_context(|| {
                    format!(
                        "{}:{line}: malformed ({records} records before it are loaded)",
                        args.file.display()
                    )
                });
            }
        }
    }
    if source.part()?.is_some() {
        bail!(several());
    }
    map.close()?;
    let seconds = began.elapsed().as_secs_f64();
    print(&if args.json {
        let object = json!({
            "records": records, "bytes": bytes, "malformed": bad, "seconds": seconds,
            "records_per_second": records as f64 / seconds.max(1e-9),
        });
        format!("{object}\n")
    } else {
        format!(
            "{records} records, {bytes} bytes of keys and values, in {seconds:.1} s; {bad} malformed lines were skipped\n"
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

/// `terrace stat`
pub fn stat(args: &StatArgs) -> Result<ExitCode> {
    let map = Map::open(&args.open.db, args.open.memory.0)?;
    let stats = map.stats();
    let (keys, values) = terrace_pm::kinds(&args.open.db)?;
    let domain = match stats.domain {
        terrace_pm::Domain::Power => "a power cut",
        terrace_pm::Domain::Process => "the death of the process",
    };
    let text = if args.json {
        json!({
            "survives": domain,
            "keys": keys,
            "values": values,
            "leaves": stats.opened_leaves,
            "buffered": stats.buffered,
            "pairs_a_leaf": stats.share,
            "replayed": stats.replayed,
            "log_bytes": stats.log_bytes,
            "memory_bytes": stats.memory_bytes,
            "index_bytes": stats.index_bytes,
            "file_bytes": stats.file_bytes,
            "capacity_bytes": stats.capacity_bytes,
        })
        .to_string()
    } else {
        format!(
            "maps              {keys} to {values}\na write survives  {domain}\nleaves            {}\nbuffered pairs    {}\n\
             a leaf may have   {:.2} of them\nlog               {} bytes\n\
             memory            {} bytes, {} of them index\nfile              {} bytes in use, {} at most\n\
             replayed          {} records when it was opened",
            stats.opened_leaves,
            stats.buffered,
            stats.share,
            stats.log_bytes,
            stats.memory_bytes,
            stats.index_bytes,
            stats.file_bytes,
            stats.capacity_bytes,
            stats.replayed,
        )
    };
    let printed = print(&format!("{text}\n"));
    map.close()?;
    printed?;
    Ok(ExitCode::SUCCESS)
}

/// `terrace verify`
pub fn verify(args: &VerifyArgs) -> Result<ExitCode> {
    let map = Map::open(&args.open.db, args.open.memory.0)?;
    let report = map.verify()?;
    let clean = report.is_clean();
    print_found(&if args.json {
        let object = json!({
            "ok": clean,
            "report": {
                "leaves": report.leaves,
                "keys": report.keys,
                "buffered": report.buffered,
                "problems": report.problems,
            },
        });
        format!("{object}\n")
    } else {
        let mut text = format!(
            "{} leaves, {} keys, {} pairs in buffers\n",
            report.leaves, report.keys, report.buffered
        );
        for problem in &report.problems {
            text += &format!("{problem}\n");
        }
        text
    })?;
    if !clean {
        bail!(
            "{} is damaged: restore it from a backup; without one, `terrace dump` saves what can be read",
            args.open.db.display()
        );
    }
    map.close()?;
    Ok(ExitCode::SUCCESS)
}
