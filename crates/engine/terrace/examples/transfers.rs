//! Money that is moved between accounts by eight threads, while an auditor adds up all of them: the sum is the
//! same at every instant, whatever happens, also after the process is killed and started again.
//!
//!     cargo run --release -p terrace --example transfers -- bank.db 5
//!
//! Kill it (`kill -9`) and run it again: it begins by adding up what it finds.

use std::time::{Duration, Instant};

use terrace::{Database, Error, Options, Reader, Transaction, Tree, encode};

const ACCOUNTS: u64 = 1000;
const EACH: u64 = 1000;
const THREADS: u64 = 8;

fn balance(bytes: Option<Vec<u8>>) -> u64 {
    bytes.and_then(|b| encode::to_u64(&b)).unwrap_or(0)
}

/// Moves an amount, if it is there.
fn transfer(
    t: &mut Transaction,
    accounts: &Tree,
    (from, to): (u64, u64),
    amount: u64,
) -> Result<bool, Error> {
    let (from, to) = (encode::u64(from), encode::u64(to));
    let (has, gets) = (
        balance(t.get(accounts, from)?),
        balance(t.get(accounts, to)?),
    );
    if has < amount || from == to {
        return Ok(false);
    }
    t.put(accounts, from, encode::u64(has - amount))?;
    t.put(accounts, to, encode::u64(gets + amount))?;
    Ok(true)
}

/// All that there is, at one instant.
fn sum(r: &mut Reader<'_>, accounts: &Tree) -> Result<u64, Error> {
    let mut sum = 0;
    for account in r.iter(accounts)? {
        sum += balance(Some(account?.1));
    }
    Ok(sum)
}

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().unwrap_or_else(|| "bank.db".into());
    let seconds = arguments.next().and_then(|s| s.parse().ok()).unwrap_or(5);
    let db = Database::open(&path, Options::new().memory(32 << 20))?;
    let accounts = db.tree("accounts")?;
    if accounts.is_empty()? {
        let mut batch = db.batch();
        for account in 0..ACCOUNTS {
            batch.put(&accounts, encode::u64(account), encode::u64(EACH));
        }
        db.write(batch, terrace::Durability::Sync)?;
    }
    let found = db.read(|r| sum(r, &accounts))?;
    println!("{path}: {ACCOUNTS} accounts with {found} in all");
    assert_eq!(found, ACCOUNTS * EACH, "money was lost or made");

    let end = Instant::now() + Duration::from_secs(seconds);
    std::thread::scope(|scope| -> Result<(), Error> {
        let mut threads = Vec::new();
        for thread in 0..THREADS {
            let (db, accounts) = (&db, &accounts);
            threads.push(scope.spawn(move || -> Result<u64, Error> {
                let (mut moved, mut n) = (0, thread + 1);
                while Instant::now() < end {
                    // Any accounts: a simple generator, a different one for each thread.
                    n = n
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(thread);
                    let (from, to) = ((n >> 20) % ACCOUNTS, (n >> 40) % ACCOUNTS);
                    let done = db.transaction(|t| transfer(t, accounts, (from, to), n % 100))?;
                    moved += u64::from(done);
                }
                Ok(moved)
            }));
        }
        let mut audits = 0;
        while Instant::now() < end {
            match db.read(|r| sum(r, &accounts)) {
                Ok(found) => assert_eq!(found, ACCOUNTS * EACH, "money was lost or made"),
                // Another thread is always faster than a look at everything; a snapshot waits for no thread.
                Err(Error::Conflict { .. }) => {
                    let snapshot = db.snapshot()?;
                    let mut found = 0;
                    for account in snapshot.tree("accounts")?.iter()? {
                        found += balance(Some(account?.1));
                    }
                    assert_eq!(found, ACCOUNTS * EACH, "money was lost or made");
                }
                Err(e) => return Err(e),
            }
            audits += 1;
            std::thread::sleep(Duration::from_millis(50));
        }
        let mut moved = 0;
        for thread in threads {
            moved += thread.join().expect("a thread panicked")?;
        }
        println!("{moved} transfers, {audits} audits, nothing lost");
        Ok(())
    })?;
    println!("{:#?}", db.stats().transactions);
    db.close()
}
