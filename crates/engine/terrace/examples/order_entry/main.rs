//! A wholesaler's order entry, after the TPC-C benchmark: nine tables, two indexes, five transactions, run by several
//! threads at once, and twelve conditions that hold at every instant, also after the process is killed.
//!
//!     cargo run --release -p terrace --example order_entry -- shop.db 5        # five seconds of business
//!     cargo run --release -p terrace --example order_entry -- shop.db kills 20 # killed 20 times, checked each time
//!
//! Read `rows.rs`, `shop.rs` (the schema) and `transactions.rs` first, then `conditions.rs`. Amounts are in cents.
//! The standard's texts (names, addresses) are left out, what the transactions and the conditions use is all there.

// A program to be read: the names are those of the standard.
#![allow(missing_docs)]

mod conditions;
mod load;
mod rows;
mod shop;
mod transactions;

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

pub use rows::Stop;
use shop::Random;
pub use shop::{Shop, Size};

/// The shop with its first rows.
pub fn opened(path: &str, memory: u64, size: Size) -> Result<Shop, Stop> {
    let shop = Shop::open(path, memory, size)?;
    shop.fill()?;
    Ok(shop)
}

impl Shop {
    /// One transaction of the mix. Its closure may run again, so it draws its random numbers from a copy.
    pub fn business(&self, rng: &mut Random, w: u16) -> Result<(), Stop> {
        let (kind, seed) = (rng.below(100), rng.below(u64::MAX));
        let done = self.db.transaction(|t| {
            let rng = &mut Random(seed);
            match kind {
                0..45 => self.new_order(t, rng, w).map(|_| ()),
                45..88 => self.payment(t, rng, w),
                88..92 => self.order_status(t, rng, w).map(|_| ()),
                92..96 => self.delivery(t, rng, w).map(|_| ()),
                _ => self.stock_level(t, rng, w).map(|_| ()),
            }
        });
        match done {
            Err(Stop::NoSuchItem) => Ok(()), // rolled back, as the standard wants it
            done => done,
        }
    }

    /// How many orders there are.
    pub fn entered(&self) -> Result<usize, Stop> {
        Ok(self.orders.iter()?.count())
    }

    /// Several clerks at once until the time is over; how many transactions they did.
    pub fn work(&self, clerks: u16, time: Duration) -> Result<u64, Stop> {
        let end = Instant::now() + time;
        let seed = std::time::UNIX_EPOCH
            .elapsed()
            .map_or(0, |since| since.as_nanos() as u64);
        std::thread::scope(|scope| {
            let begin = |clerk: u16| {
                scope.spawn(move || {
                    let (mut done, w) = (0, 1 + clerk % self.size.warehouses);
                    let mut rng = Random(seed ^ (u64::from(clerk) << 48));
                    while Instant::now() < end {
                        self.business(&mut rng, w)?;
                        done += 1;
                    }
                    Ok(done)
                })
            };
            let clerks: Vec<_> = (0..clerks).map(begin).collect();
            clerks
                .into_iter()
                .map(|clerk| clerk.join().expect("a clerk panicked"))
                .sum()
        })
    }
}

fn main() -> Result<(), Stop> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let path = arguments.first().map_or("shop.db", String::as_str);
    let size = Size {
        warehouses: 2,
        districts: 10,
        customers: 300,
        items: 10_000,
    };
    let open = || opened(path, 64 << 20, size);
    if arguments.get(1).is_some_and(|word| word == "kills") {
        let kills: u64 = arguments.get(2).and_then(|n| n.parse().ok()).unwrap_or(20);
        open()?.db.close()?;
        let program = std::env::current_exe().expect("a program knows its own path");
        for kill in 1..=kills {
            let mut child = std::process::Command::new(&program);
            let mut child = child
                .args([path, "3600"])
                .stdout(Stdio::piped())
                .spawn()
                .expect("the program starts again");
            let said = child.stdout.take().map(BufReader::new);
            let said = said.map(|mut said| said.read_line(&mut String::new()));
            said.expect("it has an output")
                .expect("it says that it is open");
            std::thread::sleep(Duration::from_millis(300 + kill * 137 % 700));
            child
                .kill()
                .and_then(|()| child.wait())
                .expect("it can be killed");
            let shop = open()?;
            shop.check()?;
            println!(
                "kill {kill}: {} orders, conditions 1 to 12 hold",
                shop.entered()?
            );
            shop.db.close()?;
        }
        return Ok(());
    }
    let shop = open()?;
    shop.check()?;
    println!("open, with {} orders", shop.entered()?);
    let seconds = arguments.get(1).and_then(|s| s.parse().ok()).unwrap_or(5);
    let done = shop.work(4, Duration::from_secs(seconds))?;
    shop.check()?;
    println!("{done} transactions, conditions 1 to 12 hold before and after");
    println!("{:#?}", shop.db.stats().transactions);
    Ok(shop.db.close()?)
}
