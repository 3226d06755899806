//! The first rows.

use terrace::encode::key;
use terrace::{Batch, Durability};

use super::rows::{
    Customer, District, History, Item, Line, Order, Stock, Stop, Warehouse, add, bytes,
};
use super::shop::{Random, Shop, first_open, last_name};

impl Shop {
    /// Loads the warehouses that are not there. A warehouse is written after everything in it, so after a kill in the
    /// middle of loading it is loaded again.
    pub fn fill(&self) -> Result<(), Stop> {
        for w in 1..=self.size.warehouses {
            if !self.warehouses.contains_key(key((w,)))? {
                self.load(w)?;
            }
        }
        Ok(())
    }

    /// The first rows of a warehouse, a district after the other, each in a batch: all of it or nothing.
    fn load(&self, w: u16) -> Result<(), Stop> {
        let (size, mut rng) = (self.size, Random(u64::from(w)));
        let put = |batch: Batch| self.db.write(batch, Durability::Buffered);
        for items in (1..=size.items).collect::<Vec<_>>().chunks(1000) {
            let mut batch = self.db.batch();
            for &item in items {
                let price = 100 + i64::from(item) * 7919 % 9900;
                batch.put(&self.items, key((item,)), bytes(&Item { price }));
                let quantity = 10 + rng.below(91) as i64;
                let stock = Stock {
                    quantity,
                    ytd: 0,
                    orders: 0,
                    remote: 0,
                };
                add(&mut batch, &self.stock, key((w, item)), &stock);
            }
            put(batch)?;
        }
        for d in 1..=size.districts {
            let mut batch = self.db.batch();
            for c in 1..=size.customers {
                let (first, last) = (
                    format!("{:08x}", rng.below(1 << 32)),
                    last_name((c - 1) % 1000),
                );
                let customer = Customer {
                    w,
                    d,
                    id: c,
                    first,
                    last,
                    balance: -1000,
                    ytd_payment: 1000,
                    payments: 1,
                    deliveries: 0,
                };
                add(&mut batch, &self.customers, key((w, d, c)), &customer);
                let history = History { w, d, amount: 1000 };
                add(&mut batch, &self.history, key((w, d, c, 1u32)), &history);
                // Each customer has one order; the last third of them is still to be delivered.
                let (open, lines) = (c > first_open(size), 5 + rng.below(11) as u8);
                let order = Order {
                    w,
                    d,
                    id: c,
                    customer: c,
                    lines,
                    carrier: (!open).then_some(1 + rng.below(10) as u8),
                };
                add(&mut batch, &self.orders, key((w, d, c)), &order);
                if open {
                    batch.put(&self.new_orders, key((w, d, c)), "");
                }
                for number in 1..=lines {
                    let line = Line {
                        item: 1 + rng.below(u64::from(size.items)) as u32,
                        supplier: w,
                        quantity: 5,
                        delivered: !open,
                        amount: if open {
                            1 + rng.below(999_999) as i64
                        } else {
                            0
                        },
                    };
                    add(&mut batch, &self.lines, key((w, d, c, number)), &line);
                }
            }
            let ytd = 1000 * i64::from(size.customers);
            let district = District {
                tax: rng.below(2001) as i64,
                ytd,
                next_order: size.customers + 1,
            };
            add(&mut batch, &self.districts, key((w, d)), &district);
            put(batch)?;
        }
        let ytd = 1000 * i64::from(size.customers) * i64::from(size.districts);
        let warehouse = Warehouse {
            tax: rng.below(2001) as i64,
            ytd,
        };
        Ok(self.warehouses.put(key((w,)), bytes(&warehouse))?)
    }
}
