//! The first rows of TPC-C, in transactions of a few hundred rows.

use terrace_bench::rng::Rng;

use super::schema::{
    Customer, District, History, Item, Line, Order, Size, Stock, Warehouse, district_key,
    history_key, item_key, key_in_district, last_name, line_key, skewed, stock_key, table,
    warehouse_key,
};
use crate::row::text;
use crate::txn::{Engine, Key};

/// Rows that are loaded in one transaction.
const TOGETHER: usize = 500;

/// A row on its way: table, key, bytes.
type Put = (usize, Key, Vec<u8>);

struct Loading<'e> {
    engine: &'e dyn Engine,
    partition: usize,
    rows: Vec<Put>,
}

impl Loading<'_> {
    fn put(&mut self, table: usize, key: Key, row: Vec<u8>) -> anyhow::Result<()> {
        self.rows.push((table, key, row));
        if self.rows.len() < TOGETHER {
            Ok(())
        } else {
            self.end()
        }
    }

    fn end(&mut self) -> anyhow::Result<()> {
        let rows = std::mem::take(&mut self.rows);
        self.engine.transact(&[self.partition], &mut |t| {
            t.on(self.partition);
            rows.iter()
                .try_for_each(|(table, key, row)| t.put(*table, key, row))
        })?;
        Ok(())
    }
}

/// Loads all of it.
///
/// # Errors
/// Those of the engine.
pub fn load(engine: &dyn Engine, size: Size) -> anyhow::Result<()> {
    let partitions = engine.partitions();
    for partition in 0..partitions {
        let mut to = Loading {
            engine,
            partition,
            rows: Vec::new(),
        };
        // Items are read by all transactions and never change: each partition has them.
        let mut rng = Rng::new(1);
        for id in 1..=size.items {
            let item = Item {
                id,
                image: rng.below(10_000) as u32,
                name: text(&mut rng, 14, 24),
                price: 100 + rng.below(9901) as i32,
                data: text(&mut rng, 26, 50),
            };
            to.put(table::ITEMS, item_key(id), item.bytes())?;
        }
        for w in 1..=size.warehouses {
            if size.partition(w, partitions) == partition {
                warehouse(&mut to, size, w)?;
            }
        }
        to.end()?;
    }
    Ok(())
}

fn warehouse(to: &mut Loading<'_>, size: Size, w: u16) -> anyhow::Result<()> {
    let mut rng = Rng::new(100 + u64::from(w));
    let ytd = 1000 * i64::from(size.customers);
    let warehouse = Warehouse {
        w,
        name: text(&mut rng, 6, 10),
        address: text(&mut rng, 41, 71),
        tax: rng.below(2001) as i32,
        ytd: ytd * i64::from(size.districts),
    };
    to.put(table::WAREHOUSES, warehouse_key(w), warehouse.bytes())?;
    for item in 1..=size.items {
        let stock = Stock {
            w,
            item,
            quantity: 10 + rng.below(91) as i32,
            districts: text(&mut rng, 240, 240),
            data: text(&mut rng, 26, 50),
            ..Stock::default()
        };
        to.put(table::STOCK, stock_key(w, item), stock.bytes())?;
    }
    for d in 1..=size.districts {
        let district = District {
            w,
            d,
            name: text(&mut rng, 6, 10),
            address: text(&mut rng, 41, 71),
            tax: rng.below(2001) as i32,
            ytd,
            next_order: size.customers + 1,
        };
        to.put(table::DISTRICTS, district_key(w, d), district.bytes())?;
        for c in 1..=size.customers {
            customer(to, &mut rng, (w, d, c))?;
        }
        // The orders are of the customers in another order: each has one.
        let step = (1..)
            .map(|n| 7919 + 2 * n)
            .find(|&n| gcd(n, size.customers) == 1)
            .unwrap_or(1);
        for o in 1..=size.customers {
            let c = 1 + (u64::from(o) * u64::from(step) % u64::from(size.customers)) as u32;
            order(to, &mut rng, size, (w, d, o), c)?;
        }
    }
    Ok(())
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn customer(to: &mut Loading<'_>, rng: &mut Rng, (w, d, c): (u16, u8, u32)) -> anyhow::Result<()> {
    let number = if c <= 1000 {
        c - 1
    } else {
        skewed(rng, 255, 0, 999)
    };
    let customer = Customer {
        w,
        d,
        id: c,
        first: text(rng, 8, 16),
        middle: "OE".into(),
        last: last_name(number),
        address: text(rng, 57, 97),
        since: 1,
        credit: u8::from(rng.below(10) == 0),
        credit_limit: 5_000_000,
        discount: rng.below(5001) as i32,
        balance: -1000,
        ytd_payment: 1000,
        payments: 1,
        deliveries: 0,
        data: text(rng, 300, 500),
    };
    to.put(table::CUSTOMERS, key_in_district(w, d, c), customer.bytes())?;
    let history = History {
        c_w: w,
        c_d: d,
        c,
        w,
        d,
        date: 1,
        amount: 1000,
        data: text(rng, 12, 24),
    };
    to.put(table::HISTORY, history_key(w, d, c, 1), history.bytes())
}

fn order(
    to: &mut Loading<'_>,
    rng: &mut Rng,
    size: Size,
    (w, d, o): (u16, u8, u32),
    c: u32,
) -> anyhow::Result<()> {
    let (open, lines) = (o > size.delivered(), 5 + rng.below(11) as u8);
    let carrier = if open { 0 } else { 1 + rng.below(10) as u8 };
    let order = Order {
        w,
        d,
        id: o,
        customer: c,
        date: 1,
        carrier,
        lines,
        all_local: 1,
    };
    to.put(table::ORDERS, key_in_district(w, d, o), order.bytes())?;
    if open {
        to.put(table::NEW_ORDERS, key_in_district(w, d, o), Vec::new())?;
    }
    for number in 1..=lines {
        let line = Line {
            w,
            d,
            order: o,
            number,
            item: 1 + rng.below(u64::from(size.items)) as u32,
            supplier: w,
            delivered: u64::from(!open),
            quantity: 5,
            amount: if open {
                1 + rng.below(999_999) as i32
            } else {
                0
            },
            district: text(rng, 24, 24),
        };
        to.put(table::LINES, line_key(w, d, o, number), line.bytes())?;
    }
    Ok(())
}
