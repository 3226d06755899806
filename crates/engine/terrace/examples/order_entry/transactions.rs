//! The five transactions. What they read and write is of one instant, or has not happened: an error that is passed on
//! with `?` takes all of it back, and where another transaction was faster the closure runs again.

use std::collections::BTreeSet;

use terrace::Transaction;
use terrace::encode::key;

use super::rows::{
    Customer, District, History, Item, Line, Order, Stock, Stop, Warehouse, parse, put, row,
};
use super::shop::{Random, Shop, last_name};

impl Shop {
    /// Enters an order of several items, some of which another warehouse supplies. Answers what it costs.
    pub fn new_order(&self, t: &mut Transaction, rng: &mut Random, w: u16) -> Result<i64, Stop> {
        let (d, c) = (self.district(rng), rng.customer(self.size));
        let tax = row::<Warehouse>(t, &self.warehouses, key((w,)))?.tax;
        row::<Customer>(t, &self.customers, key((w, d, c)))?;
        let mut district: District = row(t, &self.districts, key((w, d)))?;
        let o = district.next_order;
        district.next_order += 1;
        put(t, &self.districts, key((w, d)), &district)?;
        let lines = 5 + rng.below(11) as u8;
        let order = Order {
            w,
            d,
            id: o,
            customer: c,
            carrier: None,
            lines,
        };
        put(t, &self.orders, key((w, d, o)), &order)?;
        t.put(&self.new_orders, key((w, d, o)), "")?;
        // One order of a hundred names an item that there is not. Then nothing of all this has happened.
        let unknown = rng.below(100) == 0;
        let mut sum = 0;
        for number in 1..=lines {
            let last = number == lines;
            let id = if unknown && last {
                u32::MAX
            } else {
                rng.item(self.size)
            };
            let supplier = if rng.below(100) == 0 {
                self.warehouse(rng)
            } else {
                w
            };
            let item = t.get(&self.items, key((id,)))?.ok_or(Stop::NoSuchItem)?;
            let (item, quantity) = (parse::<Item>(&item)?, 1 + rng.below(10) as i64);
            let mut stock: Stock = row(t, &self.stock, key((supplier, id)))?;
            stock.quantity -= quantity;
            if stock.quantity < 10 {
                stock.quantity += 91;
            }
            stock.ytd += quantity;
            stock.orders += 1;
            stock.remote += u32::from(supplier != w);
            put(t, &self.stock, key((supplier, id)), &stock)?;
            let amount = quantity * item.price;
            let line = Line {
                item: id,
                supplier,
                quantity,
                amount,
                delivered: false,
            };
            put(t, &self.lines, key((w, d, o, number)), &line)?;
            sum += amount;
        }
        Ok(sum + sum * (tax + district.tax) / 10_000)
    }

    /// A customer pays; 15 of 100 at another warehouse than their own.
    pub fn payment(&self, t: &mut Transaction, rng: &mut Random, w: u16) -> Result<(), Stop> {
        let (d, amount) = (self.district(rng), 100 + rng.below(499_901) as i64);
        let home = if rng.below(100) < 15 {
            self.warehouse(rng)
        } else {
            w
        };
        let mut customer = self.find(t, rng, home)?;
        let mut warehouse: Warehouse = row(t, &self.warehouses, key((w,)))?;
        warehouse.ytd += amount;
        put(t, &self.warehouses, key((w,)), &warehouse)?;
        let mut district: District = row(t, &self.districts, key((w, d)))?;
        district.ytd += amount;
        put(t, &self.districts, key((w, d)), &district)?;
        customer.balance -= amount;
        customer.ytd_payment += amount;
        customer.payments += 1;
        let id = (customer.w, customer.d, customer.id);
        put(t, &self.customers, key(id), &customer)?;
        let number = key((id.0, id.1, id.2, customer.payments));
        put(t, &self.history, number, &History { w, d, amount })
    }

    /// What became of a customer's last order: the last entry of an index that begins with the customer.
    pub fn order_status(
        &self,
        t: &mut Transaction,
        rng: &mut Random,
        w: u16,
    ) -> Result<usize, Stop> {
        let customer = self.find(t, rng, w)?;
        let of_customer = key((customer.w, customer.d, customer.id));
        let last = t
            .index(&self.orders, "customer")?
            .prefix(of_customer)?
            .next_back();
        let Some((_, order)) = last.transpose()? else {
            return Ok(0);
        };
        let order: Order = parse(&order)?;
        let mut lines = 0;
        for line in t.prefix(&self.lines, key((order.w, order.d, order.id)))? {
            parse::<Line>(&line?.1)?;
            lines += 1;
        }
        Ok(lines)
    }

    /// The oldest order of each district goes out.
    pub fn delivery(&self, t: &mut Transaction, rng: &mut Random, w: u16) -> Result<usize, Stop> {
        let (carrier, mut delivered) = (Some(1 + rng.below(10) as u8), 0);
        for d in 1..=self.size.districts {
            let oldest = t
                .prefix(&self.new_orders, key((w, d)))?
                .next()
                .transpose()?;
            let Some((order_key, _)) = oldest else {
                continue;
            };
            t.delete(&self.new_orders, &order_key)?;
            let mut order: Order = row(t, &self.orders, &order_key)?;
            order.carrier = carrier;
            put(t, &self.orders, &order_key, &order)?;
            let lines: Vec<_> = t
                .prefix(&self.lines, &order_key)?
                .collect::<Result<_, _>>()?;
            let mut sum = 0;
            for (line_key, line) in lines {
                let mut line: Line = parse(&line)?;
                line.delivered = true;
                sum += line.amount;
                put(t, &self.lines, line_key, &line)?;
            }
            let customer_key = key((w, d, order.customer));
            let mut customer: Customer = row(t, &self.customers, &customer_key)?;
            customer.balance += sum;
            customer.deliveries += 1;
            put(t, &self.customers, customer_key, &customer)?;
            delivered += 1;
        }
        Ok(delivered)
    }

    /// How many items of the last twenty orders of a district are running short.
    pub fn stock_level(
        &self,
        t: &mut Transaction,
        rng: &mut Random,
        w: u16,
    ) -> Result<usize, Stop> {
        let (d, least) = (self.district(rng), 10 + rng.below(11) as i64);
        let next = row::<District>(t, &self.districts, key((w, d)))?.next_order;
        let mut items = BTreeSet::new();
        for line in t.range(
            &self.lines,
            key((w, d, next.saturating_sub(20)))..key((w, d, next)),
        )? {
            items.insert(parse::<Line>(&line?.1)?.item);
        }
        let keys: Vec<_> = items.iter().map(|&item| key((w, item))).collect();
        let mut short = 0;
        // Many at once: their pages are read from the disk together.
        for stock in t.get_many(&self.stock, &keys)?.into_iter().flatten() {
            short += usize::from(parse::<Stock>(&stock)?.quantity < least);
        }
        Ok(short)
    }

    /// A customer, 60 of 100 by the last name: then the one in the middle, by first name.
    fn find(&self, t: &mut Transaction, rng: &mut Random, w: u16) -> Result<Customer, Stop> {
        let d = self.district(rng);
        if rng.below(100) < 60 {
            let last = last_name(rng.customer(self.size).min(1000) - 1);
            let mut found = Vec::new();
            for customer in t.index(&self.customers, "last")?.get(key((w, d, last)))? {
                found.push(parse::<Customer>(&customer?.1)?);
            }
            found.sort_by(|a, b| a.first.cmp(&b.first));
            if !found.is_empty() {
                return Ok(found.swap_remove(found.len() / 2));
            }
        }
        row(t, &self.customers, key((w, d, rng.customer(self.size))))
    }
}
