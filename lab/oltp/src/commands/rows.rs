//! Rows in memory beside what a program would take else: the crate `multi_index_map`, with one primary and two further
//! indexes, all ordered. And what a row on the disk costs of the memory.

use std::path::Path;

use multi_index_map::MultiIndexMap;
use serde::Serialize;
use terrace_bench::resident;
use terrace_bench::rng::{Rng, mix};
use terrace_rows::{Error, Options, Row, Span, Store, Transaction};

use super::single::processor_time;

/// Operations in a transaction: who glues maps together locks them for a while, too.
const TOGETHER: u64 = 100;
/// Rounds of lookups; the best one counts, as what disturbs only makes slower.
const ROUNDS: u64 = 5;
/// Lookups in a round.
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
            branch: mix(n) % (rows / BRANCH).max(1),
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

#[derive(Serialize)]
struct Line {
    name: &'static str,
    bytes_a_row: f64,
    insert_ns: f64,
    by_id_ns: f64,
    by_email_ns: f64,
    by_branch_ns: f64,
}

/// Nanoseconds of a processor for each of `operations`, which `some` does from the first one up to before the second.
fn each(
    operations: u64,
    mut some: impl FnMut(u64, u64) -> anyhow::Result<()>,
) -> anyhow::Result<f64> {
    let begin = processor_time()?;
    for from in (0..operations).step_by(TOGETHER as usize) {
        some(from, (from + TOGETHER).min(operations))?;
    }
    Ok((processor_time()? - begin) as f64 / operations as f64)
}

/// The best of several rounds of lookups, of numbers that are drawn.
fn lookups(rows: u64, mut some: impl FnMut(&[u64]) -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let mut best = f64::MAX;
    for round in 0..ROUNDS {
        let mut rng = Rng::new(round);
        let drawn: Vec<u64> = (0..LOOKUPS).map(|_| rng.below(rows)).collect();
        let of = |from: u64, to: u64| some(&drawn[from as usize..to as usize]);
        best = best.min(each(drawn.len() as u64, of)?);
    }
    Ok(best)
}

fn grown(before: Option<u64>) -> f64 {
    let now = resident::now().unwrap_or_default();
    now.saturating_sub(before.unwrap_or_default()) as f64
}

fn ours(rows: u64, lent: bool) -> anyhow::Result<(Line, Store)> {
    let before = resident::now();
    let store = Store::in_memory();
    let table = store
        .table::<Account>("accounts")
        .unique("email", |a| a.email.clone())
        .index("branch", |a| a.branch)
        .create()?;
    let insert_ns = each(rows, |from, to| {
        store
            .transact(|t| (from..to).try_for_each(|n| t.insert(&table, &Account::nth(n, rows))))?;
        Ok(())
    })?;
    let bytes_a_row = grown(before) / rows as f64;
    let found = |sum: &mut i64, account: Option<Account>| {
        *sum += account.ok_or(Error::Missing)?.balance;
        Ok::<(), Error>(())
    };
    let mut sum = 0;
    let by_id_ns = lookups(rows, |drawn| {
        store.transact(|t| {
            for n in drawn {
                match lent {
                    true => {
                        let row = t.bytes(*table, &mix(n + 1).to_be_bytes())?;
                        sum += balance(row.ok_or(Error::Missing)?);
                    }
                    false => found(&mut sum, t.get(&table, &mix(n + 1))?)?,
                }
            }
            Ok::<(), Error>(())
        })?;
        Ok(())
    })?;
    // Rows of a key of an index, where they lie.
    let lend = |t: &mut Transaction<'_>, index: &str, key: &[u8], sum: &mut i64| {
        let past = [key, &[0]].concat();
        let span = Span {
            low: key,
            high: Some(&past),
            back: false,
        };
        t.each_by_index(*table, index, span, |_, row| {
            *sum += balance(row);
            true
        })
    };
    let by_email_ns = lookups(rows, |drawn| {
        store.transact(|t| {
            for n in drawn {
                match lent {
                    true => lend(t, "email", email(*n).as_bytes(), &mut sum)?,
                    false => found(&mut sum, t.index(&table, "email", &email(*n))?.pop())?,
                }
            }
            Ok::<(), Error>(())
        })?;
        Ok(())
    })?;
    let by_branch_ns = lookups(rows, |drawn| {
        store.transact(|t| {
            for n in drawn {
                let branch = mix(*n) % (rows / BRANCH).max(1);
                match lent {
                    true => lend(t, "branch", &branch.to_be_bytes(), &mut sum)?,
                    false => {
                        let accounts = t.index(&table, "branch", &branch)?;
                        sum += accounts.iter().map(|a| a.balance).sum::<i64>();
                    }
                }
            }
            Ok::<(), Error>(())
        })?;
        Ok(())
    })?;
    std::hint::black_box(sum);
    let name = if lent { "rows, lent" } else { "rows" };
    let line = Line {
        name,
        bytes_a_row,
        insert_ns,
        by_id_ns,
        by_email_ns,
        by_branch_ns,
    };
    Ok((line, store))
}

fn rival(rows: u64) -> anyhow::Result<Line> {
    let before = resident::now();
    let mut map = MultiIndexAccountMap::default();
    let insert_ns = each(rows, |from, to| {
        for n in from..to {
            let done = map.try_insert(Account::nth(n, rows));
            anyhow::ensure!(done.is_ok(), "row {n} is there already");
        }
        Ok(())
    })?;
    let bytes_a_row = grown(before) / rows as f64;
    let mut sum = 0;
    let mut found = |account: Option<&Account>| {
        sum += account
            .ok_or_else(|| anyhow::anyhow!("a row is missing"))?
            .balance;
        anyhow::Ok(())
    };
    let by_id_ns = lookups(rows, |drawn| {
        drawn
            .iter()
            .try_for_each(|n| found(map.get_by_id(&mix(n + 1))))
    })?;
    let by_email_ns = lookups(rows, |drawn| {
        drawn
            .iter()
            .try_for_each(|n| found(map.get_by_email(&email(*n))))
    })?;
    let by_branch_ns = lookups(rows, |drawn| {
        for n in drawn {
            let branch = mix(*n) % (rows / BRANCH).max(1);
            sum += map
                .get_by_branch(&branch)
                .iter()
                .map(|a| a.balance)
                .sum::<i64>();
        }
        Ok(())
    })?;
    std::hint::black_box(sum);
    Ok(Line {
        name: "multi_index_map",
        bytes_a_row,
        insert_ns,
        by_id_ns,
        by_email_ns,
        by_branch_ns,
    })
}

/// Compares, and measures rows on the disk.
///
/// # Errors
/// Those of the store.
pub fn run(dir: &Path, rows: u64, json: bool) -> anyhow::Result<()> {
    // Ours come first and stay: what they leave to the allocator is to the rival's good.
    let (first, store) = ours(rows, false)?;
    let bytes = store.stats().memory() as f64 / rows as f64;
    let (lent, other) = ours(rows, true)?;
    let rival = rival(rows)?;
    drop((store, other));
    for line in [&first, &lent, &rival] {
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
    if !json {
        println!("rows count {bytes:.0} bytes a row themselves");
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
