//! FUNCTION and FCALL: functions that clients call by name.

use std::sync::atomic::Ordering;

use super::run::{Dispatcher, FULL};
use crate::command::args::Args;
use crate::host::locked;
use crate::library::{self, Libraries, Library};
use crate::line::Line;
use crate::rdb::{WRITTEN, source, write};
use crate::stop::{Run, refuse};
use crate::store::work::Work;

/// What stands before a library in a dump.
const LIBRARY: u8 = 245;

impl Dispatcher {
    /// `FCALL`, `FCALL_RO`.
    pub(super) fn fcall(&self, line: &mut Line, work: &mut Work, args: &Args, writes: bool) -> Run {
        let name = String::from_utf8_lossy(args.at(1));
        let libraries = locked(&self.host.libraries).clone();
        let Some(function) = libraries.find(&name) else {
            return refuse("ERR Function not found");
        };
        let only_reads = function.only_reads();
        let refused_when_full = !only_reads && !function.allows_full();
        let Some(keys) = crate::text::parse_i64(args.at(2)) else {
            return refuse("ERR Bad number of keys provided");
        };
        let Ok(keys) = usize::try_from(keys) else {
            return refuse("ERR Number of keys can't be negative");
        };
        if keys > args.len() - 3 {
            return refuse("ERR Number of keys can't be greater than number of args");
        }
        if !writes && !only_reads {
            return refuse("ERR Can not execute a script with write flag using *_ro command.");
        }
        if refused_when_full && self.host.store.full.load(Ordering::Relaxed) {
            return refuse(FULL);
        }
        let names: Vec<&[u8]> = args.from(3).take(keys).collect();
        let arguments: Vec<&[u8]> = args.from(3 + keys).collect();
        self.scripted(line, work, !only_reads, &mut |out, limit, call| {
            library::run(&libraries, &name, &names, &arguments, out, limit, call)
        })
    }

    /// `FUNCTION`.
    pub(super) fn function(&self, line: &mut Line, work: &mut Work, args: &Args) -> Run {
        match () {
            () if args.is(1, "LOAD") && (3..=4).contains(&args.len()) => {
                let replaces = args.len() == 4;
                if replaces && !args.is(2, "REPLACE") {
                    let option = String::from_utf8_lossy(args.at(2));
                    return refuse(format!("ERR Unknown option given: {option}"));
                }
                let library = library::library(args.at(args.len() - 1)).or_else(refuse)?;
                let name = library.name.clone();
                self.change(work, |all| all.add(library, replaces))?;
                line.out.bulk(name);
            }
            () if args.is(1, "DELETE") && args.len() == 3 => {
                let name = String::from_utf8_lossy(args.at(2)).into_owned();
                self.change(work, |libraries| {
                    libraries.generation += 1;
                    let there = libraries.all.remove(&name).is_some();
                    there
                        .then_some(())
                        .ok_or("ERR Library not found".to_owned())
                })?;
                line.out.ok();
            }
            () if args.is(1, "FLUSH") && args.len() <= 3 => {
                if args.len() == 3 && !args.is(2, "SYNC") && !args.is(2, "ASYNC") {
                    return refuse("ERR FUNCTION FLUSH only supports SYNC|ASYNC option");
                }
                self.change(work, |libraries| {
                    libraries.generation += 1;
                    libraries.all.clear();
                    Ok(())
                })?;
                line.out.ok();
            }
            () if args.is(1, "LIST") => return self.list_functions(line, args),
            () if args.is(1, "STATS") && args.len() == 2 => self.function_stats(line),
            () if args.is(1, "DUMP") && args.len() == 2 => {
                let mut dump = Vec::new();
                for library in locked(&self.host.libraries).all.values() {
                    dump.push(LIBRARY);
                    write::text(&mut dump, &library.source);
                }
                write::foot(&mut dump, WRITTEN);
                line.out.bulk(dump);
            }
            () if args.is(1, "RESTORE") && (3..=4).contains(&args.len()) => {
                self.restore_functions(work, args)?;
                line.out.ok();
            }
            () if args.is(1, "KILL") && args.len() == 2 => {
                return refuse("NOTBUSY No scripts in execution right now.");
            }
            () => {
                let name = String::from_utf8_lossy(args.at(1));
                return refuse(format!(
                    "ERR unknown subcommand or wrong number of arguments for '{name}'. Try FUNCTION HELP."
                ));
            }
        }
        Ok(())
    }

    /// Changes the libraries, once that is written.
    fn change(
        &self,
        work: &mut Work,
        change: impl FnOnce(&mut Libraries) -> Result<(), String>,
    ) -> Run {
        let mut libraries = locked(&self.host.libraries);
        let mut changed = libraries.clone();
        change(&mut changed).or_else(refuse)?;
        let gone = libraries
            .all
            .keys()
            .filter(|name| !changed.all.contains_key(*name));
        let mut records: Vec<(&str, Option<&[u8]>)> =
            gone.map(|name| (name.as_str(), None)).collect();
        for (name, library) in &changed.all {
            if libraries
                .all
                .get(name)
                .is_none_or(|old| old.source != library.source)
            {
                records.push((name, Some(&library.source)));
            }
        }
        work.store.write_libraries(&records)?;
        work.note_written();
        drop(records);
        *libraries = changed;
        Ok(())
    }

    fn list_functions(&self, line: &mut Line, args: &Args) -> Run {
        let (mut pattern, mut with_code) = (None, false);
        let mut i = 2;
        while i < args.len() {
            match () {
                () if args.is(i, "WITHCODE") => with_code = true,
                () if args.is(i, "LIBRARYNAME") && i + 1 < args.len() => {
                    i += 1;
                    pattern = Some(args.at(i));
                }
                () => {
                    let option = String::from_utf8_lossy(args.at(i));
                    return refuse(format!("ERR Unknown argument {option}"));
                }
            }
            i += 1;
        }
        let libraries = locked(&self.host.libraries).clone();
        let fits = |library: &&std::sync::Arc<Library>| {
            pattern.is_none_or(|pattern| crate::glob::fits(pattern, library.name.as_bytes()))
        };
        let found: Vec<_> = libraries.all.values().filter(fits).collect();
        let out = &mut line.out;
        out.array(found.len());
        for library in found {
            out.map(3 + usize::from(with_code));
            out.bulk("library_name");
            out.bulk(&library.name);
            out.bulk("engine");
            out.bulk("LUA");
            out.bulk("functions");
            out.array(library.functions.len());
            for function in &library.functions {
                out.map(3);
                out.bulk("name");
                out.bulk(&function.name);
                out.bulk("description");
                out.bulk_or_null(function.description.as_ref());
                out.bulk("flags");
                out.set(function.flags.len());
                function.flags.iter().for_each(|flag| out.simple(flag));
            }
            if with_code {
                out.bulk("library_code");
                out.bulk(&library.source);
            }
        }
        Ok(())
    }

    fn function_stats(&self, line: &mut Line) {
        let libraries = locked(&self.host.libraries).clone();
        let functions: usize = libraries.all.values().map(|l| l.functions.len()).sum();
        let out = &mut line.out;
        out.map(2);
        out.bulk("running_script");
        out.null();
        out.bulk("engines");
        out.map(1);
        out.bulk("LUA");
        out.map(2);
        out.bulk("libraries_count");
        out.count(libraries.all.len());
        out.bulk("functions_count");
        out.count(functions);
    }

    fn restore_functions(&self, work: &mut Work, args: &Args) -> Run {
        let (flushes, replaces) = match () {
            () if args.len() == 3 || args.is(3, "APPEND") => (false, false),
            () if args.is(3, "FLUSH") => (true, false),
            () if args.is(3, "REPLACE") => (false, true),
            () => {
                return refuse(
                    "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.",
                );
            }
        };
        let Some(mut dump) = write::without_foot(args.at(2)) else {
            return refuse("ERR DUMP payload version or checksum are wrong");
        };
        let mut found = Vec::new();
        while !dump.is_empty() {
            let mut source = source::Source::new(&mut dump, self.host.options.max_value as u64);
            let is_library = source.byte().is_ok_and(|kind| kind == LIBRARY);
            let text = source.text();
            let Some(text) = text.ok().filter(|_| is_library) else {
                return refuse("ERR given type is not a function");
            };
            found.push(library::library(&text).or_else(refuse)?);
        }
        self.change(work, |libraries| {
            if flushes {
                libraries.all.clear();
                libraries.generation += 1;
            }
            found
                .into_iter()
                .try_for_each(|library| libraries.add(library, replaces))
        })
    }
}
