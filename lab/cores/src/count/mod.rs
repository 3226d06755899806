//! Lines of the cache that an operation of one thread writes and operations of another thread touch, counted
//! instruction by instruction.

mod sites;
mod subject;
mod trace;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use anyhow::{Result, ensure};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::operation::{Operation, Store, Structure};
use sites::Sites;
pub use subject::subject;
use trace::Run;

/// What one operation shares, as means over the operations that were counted.
#[derive(Serialize, Deserialize)]
pub struct Count {
    /// Over which structure.
    pub structure: Structure,
    /// Of which operation.
    pub operation: Operation,
    /// Nanoseconds of one thread alone, not counted.
    pub alone_ns: f64,
    /// Instructions outside of the kernel.
    pub instructions: f64,
    /// Calls of the kernel.
    pub calls: f64,
    /// Instructions that change a line with no other processor in between.
    pub atomic: f64,
    /// Locks of mutexes that were taken.
    pub locks: f64,
    /// Lines written that the other thread's operations touch.
    pub written: f64,
    /// The same, the least of all operations.
    pub written_least: usize,
    /// Lines read that the other thread's operations write.
    pub invalidated: f64,
    /// Who writes those lines, or reads what the other one writes.
    pub by: Vec<Site>,
    /// Mutexes that both threads' operations take.
    pub sections: Vec<Section>,
}

/// Lines that one place of the code shares.
#[derive(Serialize, Deserialize)]
pub struct Site {
    /// File, line and function that touch them first.
    pub place: String,
    /// Whether they are written.
    pub written: bool,
    /// Lines for each operation.
    pub lines: f64,
    /// Times that one operation writes each.
    pub writes: f64,
    /// Those that are written while no mutex is held.
    pub apart: f64,
}

/// What is done while a mutex that others take is held.
#[derive(Serialize, Deserialize)]
pub struct Section {
    /// Where it is taken first.
    pub place: String,
    /// How often for each operation.
    pub times: f64,
    /// Shared lines written each time, that of the mutex among them.
    pub lines: f64,
    /// Instructions each time.
    pub held: f64,
}

/// Counts each of `operations` over each of `structures`, all if there are none, by `program` that is this one.
pub fn all(
    program: &Path,
    structures: &[Structure],
    operations: &[Operation],
) -> Result<Vec<Count>> {
    fn or_all<T: ValueEnum>(named: &[T]) -> Vec<T> {
        match named {
            [] => T::value_variants().to_vec(),
            _ => named.to_vec(),
        }
    }
    let sites = Sites::new(program)?;
    let mut counts = Vec::new();
    for structure in or_all(structures) {
        for operation in or_all(operations) {
            if Store::knows(structure, operation) {
                eprintln!("{structure:?}: {operation:?}");
                counts.push(one(program, &sites, structure, operation)?);
            }
        }
    }
    Ok(counts)
}

/// Writes of a shared line.
struct Use {
    first: u64,
    writes: usize,
    apart: bool,
}

/// A mutex that is held.
struct Held {
    line: u64,
    site: u64,
    since: usize,
    lines: HashSet<u64>,
}

fn one(program: &Path, sites: &Sites, structure: Structure, operation: Operation) -> Result<Count> {
    let (alone_ns, threads) = trace::both(program, structure, operation)?;
    let touched = |runs: &[Run], written_only: bool| -> HashSet<u64> {
        runs.iter()
            .flat_map(|run| &run.accesses)
            .filter(|access| access.write || !written_only)
            .map(|access| access.line)
            .collect()
    };
    let mut count = Count {
        structure,
        operation,
        alone_ns,
        instructions: 0.0,
        calls: 0.0,
        atomic: 0.0,
        locks: 0.0,
        written: 0.0,
        written_least: usize::MAX,
        invalidated: 0.0,
        by: Vec::new(),
        sections: Vec::new(),
    };
    // By the line of the mutex: one mutex is taken at several places.
    let mut sections: BTreeMap<u64, Section> = BTreeMap::new();
    let mut by: BTreeMap<(String, bool), Site> = BTreeMap::new();
    let operations: usize = threads.iter().map(Vec::len).sum();
    ensure!(operations > 0, "no operation was seen");
    let each = 1.0 / operations as f64;
    for (me, other) in [(0, 1), (1, 0)] {
        let others = touched(&threads[other], false);
        let others_write = touched(&threads[other], true);
        for run in &threads[me] {
            count.instructions += run.instructions as f64 * each;
            count.calls += run.calls as f64 * each;
            let mut written: HashMap<u64, Use> = HashMap::new();
            let mut read: HashMap<u64, u64> = HashMap::new();
            let mut held: Vec<Held> = Vec::new();
            for access in &run.accesses {
                let is_shared = access.write && others.contains(&access.line);
                if access.atomic {
                    count.atomic += each;
                    let takes = sites.takes_a_lock(access.site);
                    if takes {
                        count.locks += each;
                    }
                    // The next atomic change of its word gives it back.
                    if let Some(at) = held.iter().position(|held| held.line == access.line) {
                        let held = held.remove(at);
                        section(&mut sections, sites, each, &held, access.at);
                        continue;
                    }
                    if takes && is_shared {
                        held.push(Held {
                            line: access.line,
                            site: access.site,
                            since: access.at,
                            lines: HashSet::new(),
                        });
                    }
                }
                if is_shared {
                    for held in &mut held {
                        held.lines.insert(access.line);
                    }
                    let of = written.entry(access.line).or_insert_with(|| Use {
                        first: access.site,
                        writes: 0,
                        apart: false,
                    });
                    of.writes += 1;
                    of.apart |= held.is_empty() && !sites.takes_a_lock(access.site);
                } else if !access.write && others_write.contains(&access.line) {
                    read.entry(access.line).or_insert(access.site);
                }
            }
            read.retain(|line, _| !written.contains_key(line));
            count.written += written.len() as f64 * each;
            count.written_least = count.written_least.min(written.len());
            count.invalidated += read.len() as f64 * each;
            for of in written.values() {
                add(&mut by, sites, of.first, true, each, of);
            }
            for site in read.values() {
                let of = Use {
                    first: *site,
                    writes: 0,
                    apart: false,
                };
                add(&mut by, sites, *site, false, each, &of);
            }
        }
    }
    count.by = by.into_values().collect();
    for site in &mut count.by {
        site.writes /= site.lines;
    }
    for of in sections.into_values() {
        // Of one place there may be a mutex for each page or record.
        let known = count
            .sections
            .iter_mut()
            .find(|known| known.place == of.place);
        match known {
            Some(known) => {
                known.times += of.times;
                known.lines += of.lines;
                known.held += of.held;
            }
            None => count.sections.push(of),
        }
    }
    for section in &mut count.sections {
        section.lines /= section.times;
        section.held /= section.times;
    }
    count.by.sort_by(|a, b| b.lines.total_cmp(&a.lines));
    Ok(count)
}

fn add(
    by: &mut BTreeMap<(String, bool), Site>,
    sites: &Sites,
    at: u64,
    written: bool,
    each: f64,
    of: &Use,
) {
    let place = sites.place(at);
    let site = by.entry((place.clone(), written)).or_insert(Site {
        place,
        written,
        lines: 0.0,
        writes: 0.0,
        apart: 0.0,
    });
    site.lines += each;
    site.writes += of.writes as f64 * each;
    site.apart += f64::from(u8::from(of.apart)) * each;
}

fn section(
    sections: &mut BTreeMap<u64, Section>,
    sites: &Sites,
    each: f64,
    held: &Held,
    until: usize,
) {
    let section = sections.entry(held.line).or_insert(Section {
        place: sites.place(held.site),
        times: 0.0,
        lines: 0.0,
        held: 0.0,
    });
    section.times += each;
    section.lines += held.lines.len() as f64 * each;
    section.held += (until - held.since) as f64 * each;
}

/// Prints them as a table, and who shares below it.
pub fn print(counts: &[Count]) {
    println!(
        "{:8} {:12} {:>8} {:>12} {:>6} {:>7} {:>6} {:>14} {:>12}",
        "", "", "ns", "instructions", "calls", "atomic", "locks", "lines written", "lines read"
    );
    for count in counts {
        println!(
            "{:8} {:12} {:8.0} {:12.0} {:6.2} {:7.2} {:6.2} {:14.2} {:12.2}",
            format!("{:?}", count.structure).to_lowercase(),
            count.operation.name(),
            count.alone_ns,
            count.instructions,
            count.calls,
            count.atomic,
            count.locks,
            count.written,
            count.invalidated,
        );
    }
    println!("\nlines: those that operations of another thread, on other records, touch or write");
    for count in counts {
        println!("\n{:?}, {}", count.structure, count.operation.name());
        for site in &count.by {
            let what = if site.written { "writes" } else { "reads" };
            println!("  {:5.2} {what:6} {}", site.lines, site.place);
        }
        for of in &count.sections {
            println!(
                "  {:5.2} times a mutex for {:.0} instructions and {:.1} lines: {}",
                of.times, of.held, of.lines, of.place
            );
        }
    }
}
