//! Rows in memory beside what a program would take else: the crate `multi_index_map`, with one primary and two further
//! indexes, all ordered. And what a row on the disk costs of the memory.

use std::ops::Range;
use std::path::Path;

use multi_index_map::MultiIndexMap;
use serde::Serialize;
use terrace_bench::resident;
use terrace_bench::rng::{Rng, mix};
use terrace_rows::{Error, Options, Row, Span, Store, Table, Transaction};

use super::single::processor_time;

/// Operations in a transaction: who glues maps together locks them for a while, too.
const TOGETHER: u64 = 100;
/// Turns in which both are filled, and asked.
const TURNS: u64 = 10;
/// Lookups of each kind in a turn.
const LOOKUPS: u64 = 50_000;
/// Accounts of a branch.
const BRANCH: u64 = 10;

#[derive(MultiIndexMap, Clone, Debug)]
struct Account {
    #[multi_index(ordered_unique)]
    id: u64,
    #[multi_index(ordered_unique)]
    email: String,
    #[multi_index(ordered_non_unique)]
    branch: u64,
    balance: i64,
    name: String,
}

impl Account {
    /// One of `rows`, whose numbers are in no order.
    fn nth(n: u64, rows: u64) -> Account {
        Account {
            id: mix(n + 1),
            email: email(n),
            branch: branch(n, rows),
            balance: n as i64,
            name: format!("Name {}", n % 10_000),
        }
    }
}

/// The balance, where a row lies.
fn balance(row: &[u8]) -> i64 {
    let bytes = row.get(16..).and_then(<[u8]>::first_chunk);
    bytes.map_or(0, |bytes| i64::from_le_bytes(*bytes))
}

fn email(n: u64) -> String {
    format!("{:x}@example{}.org", mix(n + 7) >> 24, n % 10)
}

impl Row for Account {
    type Key = u64;
    fn key(&self) -> u64 {
        self.id
    }
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.id.to_le_bytes());
        out.extend(self.branch.to_le_bytes());
        out.extend(self.balance.to_le_bytes());
        out.push(self.email.len() as u8);
        out.extend(self.email.as_bytes());
        out.extend(self.name.as_bytes());
    }
    fn decode(bytes: &[u8]) -> Option<Account> {
        let number = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let (email, name) = bytes
            .get(25..)?
            .split_at_checked(usize::from(*bytes.get(24)?))?;
        Some(Account {
            id: number(0)?,
            branch: number(8)?,
            balance: number(16)? as i64,
            email: String::from_utf8(email.to_vec()).ok()?,
            name: String::from_utf8(name.to_vec()).ok()?,
        })
    }
}

#[derive(Default, Serialize)]
struct Line {
    name: &'static str,
    bytes_a_row: f64,
    insert_ns: f64,
    by_id_ns: f64,
    by_email_ns: f64,
    by_branch_ns: f64,
}

/// What is looked for.
#[derive(Clone, Copy)]
enum By {
    Id,
    Email,
    Branch,
}

fn branch(n: u64, rows: u64) -> u64 {
    mix(n) % (rows / BRANCH).max(1)
}

/// Rows of the store, decoded, or where they lie.
struct Ours {
    store: Store,
    table: Table<Account>,
    rows: u64,
}

impl Ours {
    fn new(rows: u64) -> anyhow::Result<Ours> {
        let store = Store::in_memory();
        let table = store
            .table::<Account>("accounts")
            .unique("email", |a| a.email.clone())
            .index("branch", |a| a.branch)
            .create()?;
        Ok(Ours { store, table, rows })
    }

    fn insert(&self, some: Range<u64>) -> anyhow::Result<()> {
        let one = |t: &mut Transaction<'_>, n| t.insert(&self.table, &Account::nth(n, self.rows));
        Ok(self
            .store
            .transact(|t| some.clone().try_for_each(|n| one(t, n)))?)
    }

    /// The sum of the balances of what is found.
    fn decoded(&self, by: By, drawn: &[u64]) -> anyhow::Result<i64> {
        let table = &self.table;
        let sum = |found: Vec<Account>| found.iter().map(|a| a.balance).sum::<i64>();
        let one = |t: &mut Transaction<'_>, n: u64| {
            Ok::<i64, Error>(match by {
                By::Id => t.get(table, &mix(n + 1))?.map_or(0, |a| a.balance),
                By::Email => sum(t.index(table, "email", &email(n))?),
                By::Branch => sum(t.index(table, "branch", &branch(n, self.rows))?),
            })
        };
        Ok(self.store.transact(|t| {
            drawn
                .iter()
                .try_fold(0, |sum, &n| Ok::<_, Error>(sum + one(t, n)?))
        })?)
    }

    /// The same without a row being decoded.
    fn lent(&self, by: By, drawn: &[u64]) -> anyhow::Result<i64> {
        let mut sum = 0;
        self.store.transact(|t| {
            for &n in drawn {
                let (index, key) = match by {
                    By::Id => {
                        let row = t.bytes(*self.table, &mix(n + 1).to_be_bytes())?;
                        sum += row.map_or(0, balance);
                        continue;
                    }
                    By::Email => ("email", email(n).into_bytes()),
                    By::Branch => ("branch", branch(n, self.rows).to_be_bytes().to_vec()),
                };
                let past = [&key[..], &[0]].concat();
                let span = Span {
                    low: &key,
                    high: Some(&past),
                    back: false,
                };
                t.each_by_index(*self.table, index, span, |_, row| {
                    sum += balance(row);
                    true
                })?;
            }
            Ok::<(), Error>(())
        })?;
        Ok(sum)
    }
}

fn insert(map: &mut MultiIndexAccountMap, some: Range<u64>, rows: u64) -> anyhow::Result<()> {
    for n in some {
        let done = map.try_insert(Account::nth(n, rows));
        anyhow::ensure!(done.is_ok(), "row {n} is there already");
    }
    Ok(())
}

fn found(map: &MultiIndexAccountMap, by: By, drawn: &[u64], rows: u64) -> i64 {
    let one = |&n: &u64| match by {
        By::Id => map.get_by_id(&mix(n + 1)).map_or(0, |a| a.balance),
        By::Email => map.get_by_email(&email(n)).map_or(0, |a| a.balance),
        By::Branch => {
            let of = map.get_by_branch(&branch(n, rows));
            of.iter().map(|a| a.balance).sum()
        }
    };
    drawn.iter().map(one).sum()
}

/// Nanoseconds of a processor.
fn measured(some: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let begin = processor_time()?;
    some()?;
    Ok((processor_time()? - begin) as f64)
}

/// Bytes of a row by which the process grows: ours first, which stay meanwhile, so that what they leave to the allocator
/// is to the rival's good.
fn grown(rows: u64) -> anyhow::Result<[f64; 2]> {
    let now = || resident::now().unwrap_or_default() as f64 / rows as f64;
    let (ours, mut rival) = (Ours::new(rows)?, MultiIndexAccountMap::default());
    let before = now();
    for from in (0..rows).step_by(TOGETHER as usize) {
        ours.insert(from..(from + TOGETHER).min(rows))?;
    }
    let between = now();
    insert(&mut rival, 0..rows, rows)?;
    Ok([between - before, now() - between])
}

/// Fills both by turns, and looks for the same in both by turns: so what else runs here disturbs both.
fn compared(rows: u64) -> anyhow::Result<[Line; 3]> {
    let line = |name| Line {
        name,
        ..Line::default()
    };
    let mut lines = [line("rows"), line("rows, lent"), line("multi_index_map")];
    let [first, second] = grown(rows)?;
    for (line, bytes) in lines.iter_mut().zip([first, first, second]) {
        line.bytes_a_row = bytes;
    }
    let (ours, mut rival) = (Ours::new(rows)?, MultiIndexAccountMap::default());
    for turn in 0..TURNS {
        let some = rows * turn / TURNS..rows * (turn + 1) / TURNS;
        let each = some.clone().step_by(TOGETHER as usize);
        let first = measured(|| {
            let mut each = each.map(|from| from..(from + TOGETHER).min(some.end));
            each.try_for_each(|some| ours.insert(some))
        })?;
        let second = measured(|| insert(&mut rival, some, rows))?;
        for (line, spent) in lines.iter_mut().zip([first, first, second]) {
            line.insert_ns += spent / rows as f64;
        }
    }
    for turn in 0..TURNS {
        let mut rng = Rng::new(turn);
        let drawn: Vec<u64> = (0..LOOKUPS).map(|_| rng.below(rows)).collect();
        for by in [By::Id, By::Email, By::Branch] {
            let mut sums = [0; 3];
            let each = drawn.chunks(TOGETHER as usize);
            for (way, line) in lines.iter_mut().enumerate() {
                let spent = measured(|| {
                    for drawn in each.clone() {
                        sums[way] += match way {
                            0 => ours.decoded(by, drawn)?,
                            1 => ours.lent(by, drawn)?,
                            _ => found(&rival, by, drawn, rows),
                        };
                    }
                    Ok(())
                })?;
                let sum = match by {
                    By::Id => &mut line.by_id_ns,
                    By::Email => &mut line.by_email_ns,
                    By::Branch => &mut line.by_branch_ns,
                };
                *sum += spent / (LOOKUPS * TURNS) as f64;
            }
            anyhow::ensure!(
                sums.iter().all(|sum| *sum == sums[2] && *sum > 0),
                "not the same is found: {sums:?}"
            );
        }
    }
    Ok(lines)
}

/// Compares, and measures rows on the disk.
///
/// # Errors
/// Those of the store.
pub fn run(dir: &Path, rows: u64, json: bool) -> anyhow::Result<()> {
    let lines = compared(rows)?;
    let rival = &lines[2];
    for line in &lines {
        if json {
            println!("{}", serde_json::to_string(line)?);
            continue;
        }
        println!(
            "{:16} {:5.0} bytes a row ({:.2}), insert {:5.0} ns ({:.2} x), by id {:4.0} ns ({:.2} x), by email {:4.0} ns ({:.2} x), by \
             branch {:5.0} ns ({:.2} x)",
            line.name,
            line.bytes_a_row,
            line.bytes_a_row / rival.bytes_a_row,
            line.insert_ns,
            rival.insert_ns / line.insert_ns,
            line.by_id_ns,
            rival.by_id_ns / line.by_id_ns,
            line.by_email_ns,
            rival.by_email_ns / line.by_email_ns,
            line.by_branch_ns,
            rival.by_branch_ns / line.by_branch_ns,
        );
    }
    for ascending in [true, false] {
        cold(&dir.join("rows"), rows, ascending, json)?;
    }
    Ok(())
}

#[derive(Serialize)]
struct ColdRows {
    ascending: bool,
    cold_rows: u64,
    bytes_a_cold_row: f64,
}

/// What memory knows of rows on the disk, for each of them: what has come since a first tenth of them was there.
fn cold(dir: &Path, rows: u64, ascending: bool, json: bool) -> anyhow::Result<()> {
    if dir.exists() {
        std::fs::remove_dir_all(dir)?;
    }
    let store = Store::open(dir, Options::new().memory(32 << 20))?;
    let table = *store.table_of_bytes("rows", true).create()?;
    let mut seen = Vec::new();
    for (from, to) in [(0, rows / 10), (rows / 10, rows)] {
        for begin in (from..to).step_by(TOGETHER as usize) {
            store.transact(|t| {
                (begin..(begin + TOGETHER).min(to)).try_for_each(|n| {
                    let key = if ascending { n } else { mix(n) };
                    t.put_bytes(table, &key.to_be_bytes(), &[n as u8; 200])
                })
            })?;
        }
        let stats = store.stats();
        seen.push((stats.tables[0].cold_bytes, to - stats.tables[0].rows));
    }
    let line = ColdRows {
        ascending,
        cold_rows: seen[1].1,
        bytes_a_cold_row: (seen[1].0 - seen[0].0) as f64 / (seen[1].1 - seen[0].1) as f64,
    };
    drop(store);
    std::fs::remove_dir_all(dir)?;
    if json {
        println!("{}", serde_json::to_string(&line)?);
    } else {
        let order = if ascending {
            "in the order of their keys"
        } else {
            "in no order"
        };
        println!(
            "{} rows on the disk, written {order}: {:.2} bytes of memory each",
            line.cold_rows, line.bytes_a_cold_row
        );
    }
    Ok(())
}
