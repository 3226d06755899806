//! The consistency conditions 1 to 12 of TPC-C (clause 3.3.2), over all rows when nothing writes.

use std::collections::{BTreeMap, BTreeSet};

use super::schema::{
    Customer, District, History, Line, Order, Size, Warehouse, customer_order_key, key_in_district,
    table,
};
use crate::txn::{Engine, Span, scan};

/// A district, and a customer in it.
type Place = (u16, u8);
type Person = (u16, u8, u32);

fn hold(condition: u8, holds: bool, place: impl std::fmt::Debug) -> anyhow::Result<()> {
    anyhow::ensure!(holds, "condition {condition} does not hold at {place:?}");
    Ok(())
}

fn of<K: Ord>(map: &BTreeMap<K, i64>, key: &K) -> i64 {
    map.get(key).copied().unwrap_or(0)
}

/// Checks all of them, and that the indexes lead to the rows that the tables have.
///
/// # Errors
/// The first condition that does not hold, and where; those of the engine.
pub fn check(engine: &dyn Engine, size: Size) -> anyhow::Result<()> {
    let mut open: BTreeMap<Place, BTreeSet<u32>> = BTreeMap::new();
    scan(engine, table::NEW_ORDERS, |key, _| {
        let (w, d) = (u16::from_be_bytes([key[0], key[1]]), key[2]);
        let o = u32::from_be_bytes([key[3], key[4], key[5], key[6]]);
        open.entry((w, d)).or_default().insert(o);
        Ok(())
    })?;
    // Lines of an order: how many, how many delivered, what the delivered ones cost.
    let mut lines: BTreeMap<Person, (usize, usize, i64)> = BTreeMap::new();
    scan(engine, table::LINES, |_, row| {
        let line = Line::of(row);
        let its = lines.entry((line.w, line.d, line.order)).or_default();
        its.0 += 1;
        if line.delivered > 0 {
            its.1 += 1;
            its.2 += i64::from(line.amount);
        }
        Ok(())
    })?;
    let mut orders: BTreeMap<Place, (usize, u32, usize)> = BTreeMap::new();
    let mut delivered: BTreeMap<Person, i64> = BTreeMap::new();
    let mut last_of: BTreeMap<Person, u32> = BTreeMap::new();
    let mut lines_of: BTreeMap<Place, usize> = BTreeMap::new();
    scan(engine, table::ORDERS, |_, row| {
        let order = Order::of(row);
        let place = (order.w, order.d);
        let its = lines
            .get(&(order.w, order.d, order.id))
            .copied()
            .unwrap_or_default();
        let is_open = open
            .get(&place)
            .is_some_and(|open| open.contains(&order.id));
        hold(5, is_open == (order.carrier == 0), place)?;
        hold(6, its.0 == usize::from(order.lines), place)?;
        hold(7, its.1 == if is_open { 0 } else { its.0 }, place)?;
        let who = (order.w, order.d, order.customer);
        *delivered.entry(who).or_default() += its.2;
        let last = last_of.entry(who).or_default();
        *last = order.id.max(*last);
        let all = orders.entry(place).or_default();
        *all = (
            all.0 + 1,
            all.1.max(order.id),
            all.2 + usize::from(order.lines),
        );
        *lines_of.entry(place).or_default() += its.0;
        Ok(())
    })?;
    let mut counted: BTreeMap<Place, usize> = BTreeMap::new();
    for ((w, d, _), its) in &lines {
        *counted.entry((*w, *d)).or_default() += its.0;
    }
    let (mut of_warehouse, mut of_district, mut paid) =
        (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    scan(engine, table::HISTORY, |_, row| {
        let h = History::of(row);
        *of_warehouse.entry(h.w).or_insert(0) += i64::from(h.amount);
        *of_district.entry((h.w, h.d)).or_insert(0) += i64::from(h.amount);
        *paid.entry((h.c_w, h.c_d, h.c)).or_insert(0) += i64::from(h.amount);
        Ok(())
    })?;
    let mut deliveries: BTreeMap<Place, usize> = BTreeMap::new();
    let mut people = Vec::new();
    scan(engine, table::CUSTOMERS, |_, row| {
        let c = Customer::of(row);
        let who = (c.w, c.d, c.id);
        hold(10, c.balance == of(&delivered, &who) - of(&paid, &who), who)?;
        hold(12, c.balance + c.ytd_payment == of(&delivered, &who), who)?;
        *deliveries.entry((c.w, c.d)).or_default() += usize::from(c.deliveries);
        people.push((who, c.last));
        Ok(())
    })?;
    let mut ytd: BTreeMap<u16, i64> = BTreeMap::new();
    scan(engine, table::DISTRICTS, |_, row| {
        let d = District::of(row);
        let place = (d.w, d.d);
        let all = orders.get(&place).copied().unwrap_or_default();
        let open = open.get(&place).cloned().unwrap_or_default();
        hold(2, all.1 + 1 == d.next_order, place)?;
        if let (Some(first), Some(last)) = (open.first(), open.last()) {
            hold(2, last + 1 == d.next_order, place)?;
            hold(3, (last - first + 1) as usize == open.len(), place)?;
        }
        let counted = counted.get(&place).copied().unwrap_or_default();
        hold(
            4,
            all.2 == counted && lines_of.get(&place).copied().unwrap_or_default() == counted,
            place,
        )?;
        hold(9, of(&of_district, &place) == d.ytd, place)?;
        let moved = deliveries.get(&place).copied().unwrap_or_default();
        hold(
            11,
            all.0 - open.len() == size.delivered() as usize + moved,
            place,
        )?;
        *ytd.entry(d.w).or_default() += d.ytd;
        Ok(())
    })?;
    let mut warehouses = 0;
    scan(engine, table::WAREHOUSES, |_, row| {
        let w = Warehouse::of(row);
        hold(1, of(&ytd, &w.w) == w.ytd, w.w)?;
        hold(8, of(&of_warehouse, &w.w) == w.ytd, w.w)?;
        warehouses += 1;
        Ok(())
    })?;
    hold(1, warehouses == usize::from(size.warehouses), warehouses)?;
    indexes(engine, size, &people, &last_of)
}

/// Some people are found by their names, their last orders by them, and these orders' lines.
fn indexes(
    engine: &dyn Engine,
    size: Size,
    people: &[(Person, String)],
    last_of: &BTreeMap<Person, u32>,
) -> anyhow::Result<()> {
    for ((w, d, c), last) in people.iter().step_by(1 + people.len() / 500) {
        let home = size.partition(*w, engine.partitions());
        engine.transact(&[home], &mut |t| {
            t.on(home);
            let low = super::schema::last_key(*w, *d, last);
            let found = t.index(table::CUSTOMERS, 0, Span::of(&low, &crate::row::past(&low)))?;
            let found = found
                .iter()
                .filter(|row| Customer::of(row).id == *c)
                .count();
            let (low, high) = (
                customer_order_key(*w, *d, *c, 0),
                customer_order_key(*w, *d, *c, u32::MAX),
            );
            let order = t.index(table::ORDERS, 0, Span::last(&low, &high))?;
            let order = order.first().map(|row| Order::of(row));
            let mut right =
                found == 1 && order.as_ref().map(|o| o.id) == last_of.get(&(*w, *d, *c)).copied();
            if let Some(order) = order {
                let low = key_in_district(*w, *d, order.id);
                let lines = t.index(table::LINES, 0, Span::of(&low, &crate::row::past(&low)))?;
                right &= lines.len() == usize::from(order.lines);
            }
            match right {
                true => Ok(()),
                false => Err(anyhow::anyhow!(
                    "an index does not lead to what is there, at ({w}, {d}, {c})"
                )
                .into()),
            }
        })?;
    }
    Ok(())
}
