//! The five transactions of TPC-C, and the mix of them that a client runs.

use std::collections::BTreeSet;

use terrace_bench::rng::Rng;

use super::schema::{
    Customer, District, History, Item, Line, Order, Size, Stock, Warehouse, customer_order_key,
    district_key, history_key, item_key, key_in_district, last_key, last_name, line_key, skewed,
    stock_key, table, warehouse_key,
};
use crate::row::{past, text};
use crate::txn::{Ended, Engine, Span, Stop, Txn, missing};

/// The transactions, with how many of a hundred each is.
pub const KINDS: [(&str, u64); 5] = [
    ("new order", 45),
    ("payment", 43),
    ("order status", 4),
    ("delivery", 4),
    ("stock level", 4),
];

/// Who is meant: by number, or by last name.
#[derive(Clone, Debug)]
enum Who {
    Id(u32),
    Last(String),
}

/// A line that is ordered.
struct Wanted {
    item: u32,
    supplier: u16,
    quantity: u8,
}

/// The terminals of the warehouses of a partition, one after the other, as few threads serve all of them.
pub struct Client {
    size: Size,
    partitions: usize,
    warehouses: Vec<u16>,
    warehouse: u16,
    rng: Rng,
    clock: u64,
    /// Transactions that were committed or, as ordered, taken back, of each kind.
    pub done: [u64; 5],
}

impl Client {
    /// Client number `n`: with several partitions it serves those of one, otherwise all.
    pub fn new(size: Size, partitions: usize, n: usize, seed: u64) -> Client {
        let home = |w: &u16| size.partition(*w, partitions) == n % partitions;
        let warehouses: Vec<u16> = (1..=size.warehouses).filter(home).collect();
        let warehouse = warehouses.first().copied().unwrap_or(1);
        Client {
            size,
            partitions,
            warehouses,
            warehouse,
            rng: Rng::new(seed),
            clock: 2,
            done: [0; 5],
        }
    }

    fn any_warehouse(&mut self) -> u16 {
        1 + self.rng.below(u64::from(self.size.warehouses)) as u16
    }

    fn any_district(&mut self) -> u8 {
        1 + self.rng.below(u64::from(self.size.districts)) as u8
    }

    fn any_customer(&mut self) -> u32 {
        skewed(&mut self.rng, 1023, 1, self.size.customers)
    }

    fn who(&mut self) -> Who {
        if self.rng.below(100) >= 60 {
            return Who::Id(self.any_customer());
        }
        let most = self.size.customers.min(1000) - 1;
        Who::Last(last_name(skewed(&mut self.rng, 255, 0, most)))
    }

    fn at(&self, w: u16) -> usize {
        self.size.partition(w, self.partitions)
    }

    /// Runs one transaction of the mix at the client's warehouse; which one.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn step(&mut self, engine: &dyn Engine) -> anyhow::Result<usize> {
        let mut n = self.rng.below(100);
        let kind = KINDS.iter().position(|(_, share)| {
            let this = n < *share;
            n = n.saturating_sub(*share);
            this
        });
        let kind = kind.unwrap_or(0);
        self.clock += 1;
        if !self.warehouses.is_empty() {
            self.warehouse = self.warehouses[self.rng.below(self.warehouses.len() as u64) as usize];
        }
        match kind {
            0 => self.new_order(engine)?,
            1 => self.payment(engine)?,
            2 => self.order_status(engine)?,
            3 => self.delivery(engine)?,
            _ => self.stock_level(engine)?,
        }
        self.done[kind] += 1;
        Ok(kind)
    }

    fn new_order(&mut self, engine: &dyn Engine) -> anyhow::Result<()> {
        let (w, date, size) = (self.warehouse, self.clock, self.size);
        let (d, c) = (self.any_district(), self.any_customer());
        let unknown = self.rng.below(100) == 0;
        let count = 5 + self.rng.below(11) as u8;
        let mut wanted: Vec<Wanted> = Vec::new();
        for _ in 0..count {
            let supplier = if self.rng.below(100) == 0 {
                self.any_warehouse()
            } else {
                w
            };
            let item = skewed(&mut self.rng, 8191, 1, size.items);
            wanted.push(Wanted {
                item,
                supplier,
                quantity: 1 + self.rng.below(10) as u8,
            });
        }
        if unknown && let Some(last) = wanted.last_mut() {
            last.item = u32::MAX;
        }
        let all_local = wanted.iter().all(|line| line.supplier == w);
        let places: BTreeSet<usize> = wanted
            .iter()
            .map(|l| l.supplier)
            .chain([w])
            .map(|w| self.at(w))
            .collect();
        let places: Vec<usize> = places.into_iter().collect();
        let home = self.at(w);
        let ended = engine.transact(&places, &mut |t| {
            t.on(home);
            let _tax = Warehouse::of(&there(t, table::WAREHOUSES, &warehouse_key(w))?).tax;
            let mut district = District::of(&there(t, table::DISTRICTS, &district_key(w, d))?);
            let o = district.next_order;
            district.next_order += 1;
            let _discount =
                Customer::of(&there(t, table::CUSTOMERS, &key_in_district(w, d, c))?).discount;
            t.put(table::DISTRICTS, &district_key(w, d), &district.bytes())?;
            let order = Order {
                w,
                d,
                id: o,
                customer: c,
                date,
                carrier: 0,
                lines: count,
                all_local: u8::from(all_local),
            };
            t.insert(table::ORDERS, &key_in_district(w, d, o), &order.bytes())?;
            t.insert(table::NEW_ORDERS, &key_in_district(w, d, o), &[])?;
            let items: Vec<_> = wanted.iter().map(|line| item_key(line.item)).collect();
            let items = t.get_many(table::ITEMS, &items)?;
            for (number, (line, item)) in wanted.iter().zip(items).enumerate() {
                let item = Item::of(&item.ok_or(Stop::Rollback)?);
                t.on(size.partition(line.supplier, engine.partitions()));
                let stock_key = stock_key(line.supplier, line.item);
                let mut stock = Stock::of(&there(t, table::STOCK, &stock_key)?);
                stock.quantity -= i32::from(line.quantity);
                if stock.quantity < 10 {
                    stock.quantity += 91;
                }
                stock.ytd += u32::from(line.quantity);
                stock.orders = stock.orders.wrapping_add(1);
                stock.remote = stock.remote.wrapping_add(u16::from(line.supplier != w));
                t.put(table::STOCK, &stock_key, &stock.bytes())?;
                t.on(home);
                let at = usize::from(d - 1) % 10 * 24;
                let number = number as u8 + 1;
                let line = Line {
                    w,
                    d,
                    order: o,
                    number,
                    item: line.item,
                    supplier: line.supplier,
                    delivered: 0,
                    quantity: line.quantity,
                    amount: i32::from(line.quantity) * item.price,
                    district: stock.districts.get(at..at + 24).unwrap_or_default().into(),
                };
                t.insert(table::LINES, &line_key(w, d, o, number), &line.bytes())?;
            }
            Ok(())
        })?;
        anyhow::ensure!(
            (ended == Ended::RolledBack) == unknown,
            "a new order ended otherwise than ordered"
        );
        Ok(())
    }

    fn payment(&mut self, engine: &dyn Engine) -> anyhow::Result<()> {
        let (w, date) = (self.warehouse, self.clock);
        let (d, amount) = (self.any_district(), 100 + self.rng.below(499_901) as i32);
        let c_w = if self.rng.below(100) < 15 {
            self.any_warehouse()
        } else {
            w
        };
        let (c_d, who) = (self.any_district(), self.who());
        let data = text(&mut self.rng, 12, 24);
        let (home, away) = (self.at(w), self.at(c_w));
        let mut places = vec![home, away];
        places.sort_unstable();
        places.dedup();
        engine.transact(&places, &mut |t| {
            t.on(away);
            let mut customer = find(t, c_w, c_d, &who)?;
            t.on(home);
            let mut warehouse = Warehouse::of(&there(t, table::WAREHOUSES, &warehouse_key(w))?);
            warehouse.ytd += i64::from(amount);
            t.put(table::WAREHOUSES, &warehouse_key(w), &warehouse.bytes())?;
            let mut district = District::of(&there(t, table::DISTRICTS, &district_key(w, d))?);
            district.ytd += i64::from(amount);
            t.put(table::DISTRICTS, &district_key(w, d), &district.bytes())?;
            t.on(away);
            customer.balance -= i64::from(amount);
            customer.ytd_payment += i64::from(amount);
            customer.payments += 1;
            if customer.credit == 1 {
                let mut data = format!("{} {c_d} {c_w} {d} {w} {amount} ", customer.id);
                data.push_str(&customer.data);
                data.truncate(500);
                customer.data = data;
            }
            let (c, n) = (customer.id, customer.payments);
            t.put(
                table::CUSTOMERS,
                &key_in_district(c_w, c_d, c),
                &customer.bytes(),
            )?;
            let history = History {
                c_w,
                c_d,
                c,
                w,
                d,
                date,
                amount,
                data: data.clone(),
            };
            t.insert(
                table::HISTORY,
                &history_key(c_w, c_d, c, n),
                &history.bytes(),
            )?;
            Ok(())
        })?;
        Ok(())
    }

    fn order_status(&mut self, engine: &dyn Engine) -> anyhow::Result<()> {
        let (w, d, who) = (self.warehouse, self.any_district(), self.who());
        let home = self.at(w);
        engine.transact(&[home], &mut |t| {
            t.on(home);
            let c = find(t, w, d, &who)?.id;
            let (low, high) = (
                customer_order_key(w, d, c, 0),
                customer_order_key(w, d, c, u32::MAX),
            );
            for order in t.index(table::ORDERS, 0, Span::last(&low, &high))? {
                let order = Order::of(&order);
                let low = key_in_district(w, d, order.id);
                let lines = t.range(table::LINES, Span::of(&low, &past(&low[..7])))?;
                let _delivered = lines
                    .iter()
                    .filter(|(_, line)| Line::of(line).delivered > 0)
                    .count();
            }
            Ok(())
        })?;
        Ok(())
    }

    fn delivery(&mut self, engine: &dyn Engine) -> anyhow::Result<()> {
        let (w, date, size) = (self.warehouse, self.clock, self.size);
        let carrier = 1 + self.rng.below(10) as u8;
        let home = self.at(w);
        // Each district may be a transaction of its own; here all of them are one, as in H-Store.
        engine.transact(&[home], &mut |t| {
            t.on(home);
            for d in 1..=size.districts {
                let (low, high) = (key_in_district(w, d, 0), past(&district_key(w, d)[..3]));
                let oldest = t.range(table::NEW_ORDERS, Span::first(&low, &high))?;
                let Some((order_key, _)) = oldest.first() else {
                    continue;
                };
                t.delete(table::NEW_ORDERS, order_key)?;
                let mut order = Order::of(&there(t, table::ORDERS, order_key)?);
                order.carrier = carrier;
                t.put(table::ORDERS, order_key, &order.bytes())?;
                let mut sum = 0;
                for (line_key, line) in
                    t.range(table::LINES, Span::of(order_key, &past(&order_key[..7])))?
                {
                    let mut line = Line::of(&line);
                    line.delivered = date;
                    sum += i64::from(line.amount);
                    t.put(table::LINES, &line_key, &line.bytes())?;
                }
                let customer_key = key_in_district(w, d, order.customer);
                let mut customer = Customer::of(&there(t, table::CUSTOMERS, &customer_key)?);
                customer.balance += sum;
                customer.deliveries += 1;
                t.put(table::CUSTOMERS, &customer_key, &customer.bytes())?;
            }
            Ok(())
        })?;
        Ok(())
    }

    fn stock_level(&mut self, engine: &dyn Engine) -> anyhow::Result<()> {
        let (w, d, least) = (
            self.warehouse,
            self.any_district(),
            10 + self.rng.below(11) as i32,
        );
        let home = self.at(w);
        engine.transact(&[home], &mut |t| {
            t.on(home);
            let next = District::of(&there(t, table::DISTRICTS, &district_key(w, d))?).next_order;
            let mut items = BTreeSet::new();
            for o in next.saturating_sub(20).max(1)..next {
                // One order's lines are one range, so that an engine can say of each order where it is.
                let low = key_in_district(w, d, o);
                let lines = t.range(table::LINES, Span::of(&low, &past(&low[..7])))?;
                items.extend(lines.iter().map(|(_, line)| Line::of(line).item));
            }
            let keys: Vec<_> = items.iter().map(|&item| stock_key(w, item)).collect();
            let stocks = t.get_many(table::STOCK, &keys)?;
            let _short = stocks
                .iter()
                .flatten()
                .filter(|stock| Stock::of(stock).quantity < least)
                .count();
            Ok(())
        })?;
        Ok(())
    }
}

fn there(t: &mut dyn Txn, table: usize, key: &crate::txn::Key) -> Result<Vec<u8>, Stop> {
    t.get(table, key)?
        .ok_or_else(|| missing(format_args!("row {key:?} of table {table}")))
}

/// A customer; of those with a last name the one in the middle, by first name.
fn find(t: &mut dyn Txn, w: u16, d: u8, who: &Who) -> Result<Customer, Stop> {
    match who {
        Who::Id(c) => Ok(Customer::of(&there(
            t,
            table::CUSTOMERS,
            &key_in_district(w, d, *c),
        )?)),
        Who::Last(last) => {
            let low = last_key(w, d, last);
            let mut found: Vec<Customer> = Vec::new();
            for row in t.index(table::CUSTOMERS, 0, Span::of(&low, &past(&low)))? {
                found.push(Customer::of(&row));
            }
            found.sort_by(|a, b| a.first.cmp(&b.first));
            match found.len() {
                0 => Err(missing(format_args!("a customer {last}"))),
                n => Ok(found.swap_remove(n.div_ceil(2) - 1)),
            }
        }
    }
}
