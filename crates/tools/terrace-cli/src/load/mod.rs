//! `terrace load`: real data in.

mod csv;
#[cfg(any(feature = "sqlite", feature = "lmdb"))]
mod fed;
mod jsonl;
#[cfg(feature = "lmdb")]
mod lmdb;
pub(crate) mod parts;
pub(crate) mod source;
#[cfg(feature = "sqlite")]
mod sqlite;
mod stop;

use anyhow::{Context, Result, bail};
use indicatif::ProgressBar;
use serde_json::json;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::process::ExitCode;
use std::time::{Instant, SystemTime};

use crate::args::{Format, KindName, LoadArgs};
use crate::engine::timed::Timed;
use crate::engine::{
    Db, Durability, Loader, MAX_KEY_BYTES, MAX_VALUE_BYTES, Settings, Tree, TreeSettings,
    is_refused, too_long,
};
use crate::output::{print, tell};
use crate::progress::{self, Late};
use source::Source;
use stop::Phase;
use terrace::StructureInfo;

/// A batch is written when it has this many records,
const BATCH_RECORDS: usize = 1000;
/// or this many bytes.
const BATCH_BYTES: usize = 1 << 20;
/// A longer record or line is refused, so that what is in memory of it has a bound. Whatever a CSV or TSV
/// file or a dump has for a key and a value of the right lengths is shorter: quotes are doubled at most,
/// dumps take two bytes for one at most, and a mebibyte is left for what stands around. Only JSON from
/// elsewhere may be longer: escapes like \u0001 take six bytes for one, and fields that are not wanted any
/// number.
const LONGEST: u64 = 2 * (MAX_VALUE_BYTES + MAX_KEY_BYTES) as u64 + (1 << 20);
/// Bytes that are read at a time.
const BUFFER: usize = 256 << 10;
/// This many malformed lines are shown; the rest is only counted.
const SHOWN: u64 = 20;

/// Refuses an index over columns of rows that will be JSON: it would find some piece of the text.
fn check_indexes(args: &LoadArgs) -> Result<()> {
    let rows_are_json = args.value.is_none() && !matches!(args.format, Format::Dump | Format::Lmdb);
    match args
        .indexes
        .iter()
        .map(|index| index.source())
        .find(|s| s.starts_with("csv:"))
    {
        Some(source) if rows_are_json => bail!(
            "the rows are stored as JSON objects, whatever the format of the file: instead of {source} \
             name the field, as in --index city=json:/city"
        ),
        _ => Ok(()),
    }
}

/// `terrace load`
pub fn run(args: &LoadArgs) -> Result<ExitCode> {
    check_indexes(args)?;
    stop::watch();
    // The input first: a wrong path must not leave an empty database behind.
    let (mut source, bar) = open(args)?;
    let mut part = source.part()?;

    let settings = Settings {
        memory: args.open.memory.0,
        log_limit: args.open.log_limit.map(|size| size.0),
        create: true,
        progress: !args.json,
        ..Settings::default()
    };
    // Before there is a folder.
    let (name, tree_settings) = named(args, part.as_ref())?;
    let db = Db::open(&args.open.db, &settings)?;
    if !args.json {
        // Not before: the opening may have drawn a bar of its own.
        progress::reveal(&bar);
    }
    let began = Instant::now();
    let mut count = Count::default();
    let (db, tree) = db.open_to_write(|db| db.tree_or_create(&name, &tree_settings))?;
    let mut loaded = load_part(args, (&db, &tree), &bar, source.as_mut(), &mut count);
    while loaded.is_ok() {
        part = match source.part() {
            Ok(Some(part)) => Some(part),
            Ok(None) => break,
            Err(error) => {
                loaded = Err(error);
                break;
            }
        };
        loaded = named(args, part.as_ref())
            .and_then(|(name, settings)| db.tree_or_create(&name, &settings))
            .and_then(|tree| load_part(args, (&db, &tree), &bar, source.as_mut(), &mut count));
    }
    drop(tree);
    bar.set_message("writing a checkpoint");
    let closed = db.close();
    bar.finish_and_clear();
    loaded?;
    closed?;
    report(args, &count, began.elapsed().as_secs_f64())?;
    Ok(ExitCode::SUCCESS)
}

/// Which structure takes the records, and how it is made if it is not there: as the file says, or the command.
fn named(args: &LoadArgs, part: Option<&StructureInfo>) -> Result<(String, TreeSettings)> {
    if let Some(info) = part {
        // What was said would be passed over.
        if args.structure.is_some()
            || args.kind.is_some()
            || args.compress.is_some()
            || args.tiers.is_some()
            || args.expiring
            || args.hot_in_file
            || !args.indexes.is_empty()
        {
            bail!(
                "the dump says itself which structures its records are of, and how they are made: leave out --structure, --kind, --tiers, --index, --compress, --expiring and --hot-in-file"
            );
        }
        return Ok((info.name.clone(), parts::settings(info)?));
    }
    let settings = TreeSettings {
        compression: args.compress,
        in_memory: args.hot_in_file.then_some(false),
        expiring: args.expiring || args.expires_field.is_some(),
        tiers: args.tiers.unwrap_or(2),
        expected_tiers: args.tiers,
        indexes: args.indexes.clone(),
        ..TreeSettings::of_kind(args.kind.map(KindName::kind))
    };
    let name = args.structure.as_deref().unwrap_or("main");
    Ok((name.to_owned(), settings))
}

/// Loads what comes up to the next part into one structure.
fn load_part(
    args: &LoadArgs,
    (db, tree): (&Db, &Tree),
    bar: &ProgressBar,
    source: &mut dyn Source,
    count: &mut Count,
) -> Result<()> {
    tree.check_writable()?;
    // Where an index may refuse a row, which one it was has to be found out.
    let loader = (!tree.has_indexes()).then(|| tree.loader()).transpose()?;
    let phase = match loader {
        Some(_) if tree.is_ordered() => Phase::Sorting,
        _ => Phase::Batches,
    };
    stop::enter(phase, count.records);
    bar.set_message("loading");
    let mut loading = Loading {
        db,
        tree,
        loader,
        args,
        bar,
        batch: Vec::new(),
        lines: Vec::new(),
        pending: 0,
        count: *count,
        before: count.records,
        longest_key: db.longest_key(),
    };
    let outcome = loading.all(source);
    // Also after a malformed line: what came before it is to be loaded, and to stay.
    let ended = loading.end();
    *count = loading.count;
    ended?;
    outcome
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    records: u64,
    bytes: u64,
    bad: u64,
}

struct Loading<'a> {
    db: &'a Db,
    tree: &'a Tree,
    /// Takes all records, if it is there; else they go in batches.
    loader: Option<Loader>,
    args: &'a LoadArgs,
    bar: &'a ProgressBar,
    batch: Vec<Timed>,
    /// The line of each record of the batch.
    lines: Vec<u64>,
    pending: usize,
    count: Count,
    /// Records of the parts before.
    before: u64,
    longest_key: usize,
}

impl Loading<'_> {
    fn all(&mut self, source: &mut dyn Source) -> Result<()> {
        loop {
            let next = match source.next() {
                Ok(next) => next,
                Err(error) => {
                    self.flush()?;
                    let (name, loaded) = (self.name(), self.count.records);
                    return Err(error).with_context(|| {
                        format!("cannot read {name} ({loaded} records before it are loaded)")
                    });
                }
            };
            let Some((line, record)) = next else {
                return self.flush();
            };
            let record =
                record.and_then(
                    |(key, value)| match too_long(&key, &value, self.longest_key) {
                        Some(problem) => bail!(problem),
                        None => Ok((key, value)),
                    },
                );
            match record {
                Ok((key, value)) if self.loader.is_some() => {
                    self.take(&key, &value, source.expires())?;
                }
                Ok(entry) => {
                    self.pending += entry.0.len() + entry.1.len();
                    self.batch.push((entry, source.expires()));
                    self.lines.push(line);
                    if self.batch.len() >= BATCH_RECORDS || self.pending >= BATCH_BYTES {
                        self.flush()?;
                    }
                }
                Err(error) => {
                    // What came before it is to stay.
                    if !self.args.skip_bad {
                        self.flush()?;
                    }
                    self.bad(line, error)?;
                }
            }
        }
    }

    /// Gives a record to the loader.
    fn take(&mut self, key: &[u8], value: &[u8], expires: Option<SystemTime>) -> Result<()> {
        if let Some(loader) = &mut self.loader {
            match expires {
                Some(time) => loader.put_until(key, value, time)?,
                None => loader.put(key, value)?,
            }
            self.count.records += 1;
            self.count.bytes += (key.len() + value.len()) as u64;
            stop::taken(match self.tree.is_ordered() {
                true => self.count.records,
                // Those that are still to be written with others are not loaded.
                false => self.before + loader.written(),
            });
        }
        Ok(())
    }

    /// Writes what the loader was given.
    fn end(&mut self) -> Result<()> {
        let Some(loader) = self.loader.take() else {
            return Ok(());
        };
        self.bar.set_message("writing");
        if self.tree.is_ordered() {
            stop::written(self.before);
            stop::enter(Phase::Writing, self.before);
        }
        let before = self.before;
        let late = Late::new(self.args.json);
        let mut written = 0;
        let ended = loader.finish_with(Durability::Buffered, |progress| {
            written = progress.done;
            stop::written(before + written);
            self.bar.suspend(|| late.show(progress));
        });
        late.clear();
        ended.with_context(|| {
            let put = self.count.records - before;
            let which = match self.tree.is_ordered() {
                true => "those with the lowest keys",
                false => "those that came first",
            };
            format!(
                "of {put} records about {written} are loaded, {which}; what else the structure has is as it \
                 was before, and loading the same again completes it"
            )
        })?;
        Ok(())
    }

    fn name(&self) -> String {
        if reads_stdin(self.args) {
            "input".into()
        } else {
            self.args.file.display().to_string()
        }
    }

    /// A line that cannot be taken: it is left out, or the loading ends.
    fn bad(&mut self, line: u64, error: anyhow::Error) -> Result<()> {
        let name = self.name();
        if !self.args.skip_bad {
            let loaded = self.count.records;
            return Err(error).with_context(|| {
                format!(
                    "{name}:{line}: malformed ({loaded} records before it are loaded; \
                     --skip-bad leaves such lines out)"
                )
            });
        }
        self.count.bad += 1;
        if self.count.bad <= SHOWN {
            self.bar
                .suspend(|| tell(&format!("{name}:{line}: {error:#}; skipped")));
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        let (batch, lines) = (&mut self.batch, &mut self.lines);
        let (batch, lines) = (std::mem::take(batch), std::mem::take(lines));
        self.pending = 0;
        self.write(&batch, &lines)
    }

    /// Writes records as one batch, and where an index refuses one of them, each half as one: so which it
    /// is shows, and rows that give keys to each other stay together if they can.
    fn write(&mut self, batch: &[Timed], lines: &[u64]) -> Result<()> {
        let bytes = |(entry, _): &Timed| (entry.0.len() + entry.1.len()) as u64;
        match self.db.write(self.tree, batch, Durability::Buffered) {
            Ok(()) => {
                self.count.records += batch.len() as u64;
                stop::taken(self.count.records);
                self.count.bytes += batch.iter().map(bytes).sum::<u64>();
                Ok(())
            }
            Err(error) if !is_refused(&error) => Err(error),
            Err(error) => match lines {
                [line] => self.bad(*line, error),
                _ => {
                    let half = batch.len() / 2;
                    self.write(&batch[..half], &lines[..half])?;
                    self.write(&batch[half..], &lines[half..])
                }
            },
        }
    }
}

fn reads_stdin(args: &LoadArgs) -> bool {
    args.file.as_os_str() == "-"
}

/// What is loaded, and a bar for how far it has come, which is not shown yet.
pub(crate) fn open(args: &LoadArgs) -> Result<(Box<dyn Source>, ProgressBar)> {
    if args.table.is_some() && !matches!(args.format, Format::Sqlite | Format::Lmdb) {
        bail!("only SQLite and LMDB have tables: leave --table out");
    }
    if args.delimiter.is_some() && !matches!(args.format, Format::Csv | Format::Tsv) {
        bail!("only csv and tsv have fields with something between them: leave --delimiter out");
    }
    if matches!(args.format, Format::Sqlite | Format::Lmdb) && reads_stdin(args) {
        bail!("stores like SQLite and LMDB are files: give the name of one");
    }
    let (source, bar): (Box<dyn Source>, ProgressBar) = match args.format {
        #[cfg(feature = "sqlite")]
        Format::Sqlite => sqlite::open(args)?,
        #[cfg(not(feature = "sqlite"))]
        Format::Sqlite => bail!(
            "this terrace was built without its feature `sqlite`; sqlite3 -header -csv FILE 'select * from TABLE' | \
             terrace load DB --format csv --key COLUMN - does it too"
        ),
        #[cfg(feature = "lmdb")]
        Format::Lmdb => lmdb::open(args)?,
        #[cfg(not(feature = "lmdb"))]
        Format::Lmdb => bail!(
            "this terrace was built without its feature `lmdb`: build it with --features lmdb"
        ),
        _ => {
            let (input, bytes) = open_input(args)?;
            let bar = match bytes {
                Some(bytes) => progress::bytes(bytes, true),
                None => progress::spinner(true),
            };
            let reader = bar.wrap_read(input);
            (open_source(args, reader)?, bar)
        }
    };
    bar.set_message("loading");
    Ok((source, bar))
}

fn open_input(args: &LoadArgs) -> Result<(Box<dyn Read>, Option<u64>)> {
    if reads_stdin(args) {
        return Ok((Box::new(io::stdin()), None));
    }
    let path = args.file.display();
    let file = File::open(&args.file).with_context(|| format!("cannot open {path}"))?;
    let meta = file
        .metadata()
        .with_context(|| format!("cannot open {path}"))?;
    if meta.is_dir() {
        bail!("{path} is a folder; give a file, or - for the standard input");
    }
    // A pipe has no length to measure progress by.
    Ok((Box::new(file), meta.is_file().then_some(meta.len())))
}

fn open_source(args: &LoadArgs, reader: impl Read + 'static) -> Result<Box<dyn Source>> {
    let name = match reads_stdin(args) {
        true => "the input".into(),
        false => args.file.display().to_string(),
    };
    let cannot = || format!("cannot load {name}");
    let mut reader = BufReader::with_capacity(BUFFER, reader);
    let begins = reader.fill_buf().with_context(cannot)?;
    // What gzip has made begins so, and no text does.
    if begins.starts_with(&[0x1F, 0x8B]) {
        let reader = flate2::bufread::MultiGzDecoder::new(reader);
        return source(args, BufReader::with_capacity(BUFFER, reader)).with_context(cannot);
    }
    source(args, reader).with_context(cannot)
}

fn source(args: &LoadArgs, reader: impl BufRead + 'static) -> Result<Box<dyn Source>> {
    let (key, value) = (args.key.as_deref(), args.value.as_deref());
    let expires = args.expires_field.as_deref();
    let delimiter = |usual| args.delimiter.unwrap_or(usual);
    Ok(match (args.format, key) {
        (Format::Csv, Some(key)) => {
            let how = (delimiter(b','), true);
            Box::new(csv::Csv::new(reader, how, key, value, LONGEST)?.expiring(expires)?)
        }
        (Format::Tsv, Some(key)) => {
            let how = (delimiter(b'\t'), false);
            Box::new(csv::Csv::new(reader, how, key, value, LONGEST)?.expiring(expires)?)
        }
        (Format::Jsonl, Some(key)) => {
            Box::new(jsonl::Jsonl::new(reader, key, value, LONGEST).expiring(expires))
        }
        (Format::Dump, None) if value.is_none() && expires.is_none() => {
            Box::new(jsonl::Dump::new(reader, LONGEST))
        }
        (Format::Dump, _) => {
            bail!(
                "a dump has keys and values of its own: leave --key, --value and --expires-field out"
            )
        }
        (Format::Csv | Format::Tsv | Format::Jsonl, None) => {
            bail!("say with --key which field becomes the key")
        }
        (Format::Sqlite | Format::Lmdb | Format::Redis, _) => {
            bail!("it is not read as a text")
        }
    })
}

fn report(args: &LoadArgs, count: &Count, seconds: f64) -> Result<()> {
    let per_second = count.records as f64 / seconds.max(1e-9);
    if args.json {
        let object = json!({
            "records": count.records,
            "bytes": count.bytes,
            "malformed": count.bad,
            "seconds": seconds,
            "records_per_second": per_second,
        });
        return print(&format!("{object}\n"));
    }
    let mut text = format!(
        "{} records, {} of keys and values, in {seconds:.1} s ({:.0} records/s)\n",
        count.records,
        terrace_bench::numbers::bytes(count.bytes),
        per_second
    );
    if count.bad > 0 {
        text += &format!("{} malformed lines were skipped", count.bad);
        if count.bad > SHOWN {
            text += &format!("; the first {SHOWN} are shown above");
        }
        text.push('\n');
    }
    print(&text)
}
