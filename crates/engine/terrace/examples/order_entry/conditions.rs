//! The conditions that hold at every instant.

use std::collections::{BTreeMap, BTreeSet};

use super::rows::{Customer, District, History, Line, Order, Stop, Warehouse, id, parse};
use super::shop::{Shop, first_open};

impl Shop {
    /// The twelve conditions of the standard (its clause 3.3.2), over a snapshot, so also while clerks work.
    pub fn check(&self) -> Result<(), Stop> {
        let (snapshot, size) = (self.db.snapshot()?, self.size);
        let rows = |name: &str| snapshot.table(name)?.iter();
        let (mut of_warehouse, mut of_district) = (BTreeMap::new(), BTreeMap::new());
        let (mut paid, mut delivered) = (BTreeMap::new(), BTreeMap::new());
        for row in rows("history")? {
            let (history_key, row) = row?;
            let (w, d, c, _) = id::<(u16, u8, u32, u32)>(&history_key)?;
            let h: History = parse(&row)?;
            *of_warehouse.entry(h.w).or_insert(0) += h.amount;
            *of_district.entry((h.w, h.d)).or_insert(0) += h.amount;
            *paid.entry((w, d, c)).or_insert(0) += h.amount;
        }
        let mut open: BTreeMap<_, BTreeSet<u32>> = BTreeMap::new();
        for row in rows("new_orders")? {
            let (w, d, o) = id::<(u16, u8, u32)>(&row?.0)?;
            open.entry((w, d)).or_default().insert(o);
        }
        let mut lines: BTreeMap<_, Vec<Line>> = BTreeMap::new();
        for row in rows("lines")? {
            let (line_key, row) = row?;
            let (w, d, o, _) = id::<(u16, u8, u32, u8)>(&line_key)?;
            lines.entry((w, d, o)).or_default().push(parse(&row)?);
        }
        let mut orders: BTreeMap<_, Vec<u32>> = BTreeMap::new();
        let mut counted = 0;
        for row in rows("orders")? {
            let o: Order = parse(&row?.1)?;
            let place = (o.w, o.d);
            let its = lines.get(&(o.w, o.d, o.id)).map_or(&[][..], Vec::as_slice);
            counted += its.len();
            let is_open = open.get(&place).is_some_and(|open| open.contains(&o.id));
            hold(5, is_open == o.carrier.is_none(), place)?;
            hold(6, its.len() == usize::from(o.lines), place)?;
            hold(
                7,
                its.iter().all(|line| line.delivered == o.carrier.is_some()),
                place,
            )?;
            let sum: i64 = its
                .iter()
                .filter(|line| line.delivered)
                .map(|line| line.amount)
                .sum();
            *delivered.entry((o.w, o.d, o.customer)).or_insert(0) += sum;
            orders.entry(place).or_default().push(o.id);
        }
        // Of each order that is there the lines are right; if there are no others, the sums agree as well.
        hold(
            4,
            counted == lines.values().map(Vec::len).sum::<usize>(),
            (0, 0),
        )?;
        let mut deliveries = BTreeMap::new();
        for row in rows("customers")? {
            let c: Customer = parse(&row?.1)?;
            let (who, place) = ((c.w, c.d, c.id), (c.w, c.d));
            let (paid, delivered) = (
                paid.get(&who).unwrap_or(&0),
                delivered.get(&who).unwrap_or(&0),
            );
            hold(10, c.balance == delivered - paid, place)?;
            hold(12, c.balance + c.ytd_payment == *delivered, place)?;
            *deliveries.entry(place).or_insert(0) += c.deliveries as usize;
        }
        let mut ytd = BTreeMap::new();
        for row in rows("districts")? {
            let (district_key, row) = row?;
            let place = id::<(u16, u8)>(&district_key)?;
            let d: District = parse(&row)?;
            let (orders, open) = (
                &orders[&place],
                open.get(&place).cloned().unwrap_or_default(),
            );
            hold(2, orders.iter().max() == Some(&(d.next_order - 1)), place)?;
            if let (Some(first), Some(last)) = (open.first(), open.last()) {
                hold(2, *last == d.next_order - 1, place)?;
                hold(3, (last - first + 1) as usize == open.len(), place)?;
            }
            hold(9, of_district.get(&place) == Some(&d.ytd), place)?;
            let at_first = first_open(size) as usize;
            hold(
                11,
                orders.len() - open.len() == at_first + deliveries[&place],
                place,
            )?;
            *ytd.entry(place.0).or_insert(0) += d.ytd;
        }
        for row in rows("warehouses")? {
            let (warehouse_key, row) = row?;
            let (w,) = id::<(u16,)>(&warehouse_key)?;
            let warehouse: Warehouse = parse(&row)?;
            hold(1, ytd.get(&w) == Some(&warehouse.ytd), (w, 0))?;
            hold(8, of_warehouse.get(&w) == Some(&warehouse.ytd), (w, 0))?;
        }
        Ok(())
    }
}

fn hold(condition: u8, holds: bool, (w, d): (u16, u8)) -> Result<(), Stop> {
    let broken = || {
        Stop::Broken(format!(
            "condition {condition} does not hold in warehouse {w}, district {d}"
        ))
    };
    holds.then_some(()).ok_or_else(broken)
}
