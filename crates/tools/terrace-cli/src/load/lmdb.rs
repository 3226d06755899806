//! A database of LMDB: keys and values as they are.

// The store maps its file, and another program that does not keep to its lock could change it below us.
#![allow(unsafe_code)]

use anyhow::{Context, Result, anyhow, bail};
use heed::types::Bytes;
use heed::{
    CommitOrAbort, Database, DatabaseOpener, Env, EnvFlags, EnvOpenOptions, RoTxn, WithoutTls,
};
use indicatif::ProgressBar;

use super::fed::Fed;
use super::source::Source;
use crate::args::LoadArgs;
use crate::progress;

/// Databases of an environment that are opened to see whether they are some; as many names are told.
const MOST: u32 = 64;

type Records = Database<'static, Bytes, Bytes>;

/// Opens an environment and looks whether it has what is asked for.
pub fn open(args: &LoadArgs) -> Result<(Box<dyn Source>, ProgressBar)> {
    if args.key.is_some() || args.value.is_some() || args.expires_field.is_some() {
        bail!("LMDB has keys and values of its own: leave --key, --value and --expires-field out");
    }
    let path = args.file.display().to_string();
    let from = environment(args).with_context(|| format!("cannot open {path}"))?;
    let all =
        database(&from, args.table.as_deref()).with_context(|| format!("cannot load {path}"))?;
    let records = {
        let reading = from.read_txn()?;
        all.len(&reading)?
    };
    let bar = progress::things(records, true);
    let source = Fed::new(bar.clone(), move |to| {
        let reading = from.read_txn()?;
        let mut last: Vec<u8> = Vec::new();
        for (place, record) in all.iter(&reading)?.enumerate() {
            let (key, value) = record?;
            let given = match place > 0 && last == key {
                false => Ok(((key.to_vec(), value.to_vec()), None)),
                true => Err(anyhow!(
                    "the key has several values (MDB_DUPSORT), and a record here has one: with --skip-bad the first \
                     of them is loaded"
                )),
            };
            last.clear();
            last.extend_from_slice(key);
            if !to.give(given) {
                break;
            }
        }
        Ok(())
    })?;
    Ok((Box::new(source), bar))
}

fn environment(args: &LoadArgs) -> Result<Env<WithoutTls>> {
    let mut flags = EnvFlags::READ_ONLY;
    if args.file.is_file() {
        flags |= EnvFlags::NO_SUB_DIR;
    }
    let mut options = EnvOpenOptions::new().read_txn_without_tls();
    // And the one that is meant.
    options.max_dbs(MOST + 1);
    // SAFETY: read only, and with the store's lock, so whoever writes there by LMDB does no harm; that no other
    // process writes to the file is what LMDB asks of every program.
    unsafe {
        options.flags(flags);
        Ok(options.open(&args.file)?)
    }
}

/// The database of a name, or the one that has none.
fn database(from: &Env<WithoutTls>, name: Option<&str>) -> Result<Records> {
    let opened = from.open_databases_and_commit(from.read_txn()?, |opener, reading| {
        let Some(main) = opener.open_database::<Bytes, Bytes>(reading, None)? else {
            bail!("it is empty");
        };
        let names = named(opener, reading, &main)?;
        let found = match name {
            Some(name) => match open_named(opener, reading, name)? {
                Some(found) => found,
                None if names.is_empty() => bail!(
                    "there is no database {name:?} in it, nor any other with a name: leave --table out"
                ),
                None => bail!(
                    "there is no database {name:?} in it; there are {}",
                    names.join(", ")
                ),
            },
            None if names.is_empty() => main,
            None => bail!(
                "it has databases with names: say with --table which: {}",
                names.join(", ")
            ),
        };
        Ok(CommitOrAbort::<_, ()>::Commit(found))
    })?;
    match opened {
        CommitOrAbort::Commit(found) => Ok(found),
        CommitOrAbort::Abort(()) => bail!("it cannot be read"),
    }
}

/// The database of a name; none if there is none, or a record of that name.
fn open_named<'e>(
    opener: &DatabaseOpener<'e, WithoutTls>,
    reading: &RoTxn<'e, WithoutTls>,
    name: &str,
) -> Result<Option<Database<'e, Bytes, Bytes>>> {
    match opener.open_database(reading, Some(name)) {
        Ok(found) => Ok(found),
        Err(heed::Error::Mdb(heed::MdbError::Incompatible)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Names of databases, which are records of the one without a name.
fn named(
    opener: &DatabaseOpener<WithoutTls>,
    reading: &RoTxn<WithoutTls>,
    main: &Database<Bytes, Bytes>,
) -> Result<Vec<String>> {
    /// Bytes of what describes one, which stands in the place of a value.
    const DESCRIBED: usize = 48;
    let mut names = Vec::new();
    let mut looked = 0;
    for record in main.iter(reading)? {
        let (key, value) = record?;
        let Ok(name) = std::str::from_utf8(key) else {
            continue;
        };
        if value.len() != DESCRIBED || name.contains('\0') {
            continue;
        }
        if open_named(opener, reading, name)?.is_some() {
            names.push(format!("{name:?}"));
        }
        looked += 1;
        if looked == MOST {
            break;
        }
    }
    Ok(names)
}
