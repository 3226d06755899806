//! The schema of TPC-C, its rows and their keys, and the random numbers that they follow.

use terrace_bench::rng::Rng;

use crate::row::{key, row};
use crate::txn::{IndexDef, Key, TableDef};

/// How much there is. The standard's size has 10 districts of 3,000 customers, and 100,000 items.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Warehouses; those of a partition are a remainder of their number.
    pub warehouses: u16,
    /// Districts of a warehouse.
    pub districts: u8,
    /// Customers of a district, at most 2^24 - 1.
    pub customers: u32,
    /// Items.
    pub items: u32,
}

impl Size {
    /// The standard's size.
    pub fn standard(warehouses: u16) -> Size {
        Size {
            warehouses,
            districts: 10,
            customers: 3000,
            items: 100_000,
        }
    }

    /// Orders up to this one are delivered at the beginning.
    pub fn delivered(&self) -> u32 {
        self.customers * 7 / 10
    }

    /// Where a warehouse lies.
    pub fn partition(&self, w: u16, partitions: usize) -> usize {
        usize::from(w - 1) % partitions
    }
}

/// Numbers of the tables.
pub mod table {
    #![allow(missing_docs)]
    pub const WAREHOUSES: usize = 0;
    pub const DISTRICTS: usize = 1;
    pub const CUSTOMERS: usize = 2;
    pub const HISTORY: usize = 3;
    pub const ORDERS: usize = 4;
    pub const NEW_ORDERS: usize = 5;
    pub const LINES: usize = 6;
    pub const ITEMS: usize = 7;
    pub const STOCK: usize = 8;
}

/// The tables with their indexes, as H-Store has them: also the index on order lines that the primary key makes redundant.
pub fn schema() -> Vec<TableDef> {
    let plain = |name, resident| TableDef {
        name,
        indexes: &[],
        resident,
        prefix: 0,
    };
    vec![
        plain("warehouses", true),
        plain("districts", true),
        TableDef {
            name: "customers",
            indexes: const {
                &[IndexDef {
                    name: "last",
                    unique: false,
                    number: false,
                    key: by_last,
                }]
            },
            resident: false,
            prefix: 0,
        },
        plain("history", false),
        TableDef {
            name: "orders",
            indexes: const {
                &[IndexDef {
                    name: "customer",
                    unique: true,
                    number: false,
                    key: by_customer,
                }]
            },
            resident: false,
            prefix: 0,
        },
        plain("new_orders", true),
        TableDef {
            name: "lines",
            indexes: const {
                &[IndexDef {
                    name: "order",
                    unique: false,
                    number: true,
                    key: by_order,
                }]
            },
            resident: false,
            prefix: 7,
        },
        plain("items", true),
        plain("stock", false),
    ]
}

row!(
    /// A warehouse.
    Warehouse { w: u16, name: String, address: String, tax: i32, ytd: i64 }
);
row!(
    /// A district.
    District { w: u16, d: u8, name: String, address: String, tax: i32, ytd: i64, next_order: u32 }
);
row!(
    /// A customer.
    Customer {
        w: u16, d: u8, id: u32, first: String, middle: String, last: String, address: String, since: u64,
        credit: u8, credit_limit: i64, discount: i32, balance: i64, ytd_payment: i64, payments: u16,
        deliveries: u16, data: String,
    }
);
row!(
    /// A payment.
    History { c_w: u16, c_d: u8, c: u32, w: u16, d: u8, date: u64, amount: i32, data: String }
);
row!(
    /// An order; carrier 0 where it is not delivered.
    Order { w: u16, d: u8, id: u32, customer: u32, date: u64, carrier: u8, lines: u8, all_local: u8 }
);
row!(
    /// A line of an order; delivered at 0 where it is not.
    Line {
        w: u16, d: u8, order: u32, number: u8, item: u32, supplier: u16, delivered: u64, quantity: u8,
        amount: i32, district: String,
    }
);
row!(
    /// An item.
    Item { id: u32, image: u32, name: String, price: i32, data: String }
);
row!(
    /// What a warehouse has of an item.
    Stock { w: u16, item: u32, quantity: i32, districts: String, ytd: u32, orders: u16, remote: u16, data: String }
);

fn wd(w: u16, d: u8) -> [u8; 3] {
    let w = w.to_be_bytes();
    [w[0], w[1], d]
}

/// The key of a warehouse.
pub fn warehouse_key(w: u16) -> Key {
    key(&[&w.to_be_bytes()])
}

/// The key of a district.
pub fn district_key(w: u16, d: u8) -> Key {
    key(&[&wd(w, d)])
}

/// The key of a customer, an order, or a new order.
pub fn key_in_district(w: u16, d: u8, n: u32) -> Key {
    key(&[&wd(w, d), &n.to_be_bytes()])
}

/// The key of a payment: the customer, and which of theirs.
pub fn history_key(w: u16, d: u8, c: u32, n: u16) -> Key {
    key(&[&wd(w, d), &c.to_be_bytes()[1..], &n.to_be_bytes()])
}

/// The key of a line.
pub fn line_key(w: u16, d: u8, o: u32, n: u8) -> Key {
    key(&[&wd(w, d), &o.to_be_bytes(), &[n]])
}

/// The key of an item.
pub fn item_key(item: u32) -> Key {
    key(&[&item.to_be_bytes()])
}

/// The key of a stock.
pub fn stock_key(w: u16, item: u32) -> Key {
    key(&[&w.to_be_bytes(), &item.to_be_bytes()])
}

/// The entry of a last name.
pub fn last_key(w: u16, d: u8, last: &str) -> Vec<u8> {
    [&wd(w, d)[..], last.as_bytes(), &[0]].concat()
}

/// The entry of an order of a customer.
pub fn customer_order_key(w: u16, d: u8, c: u32, o: u32) -> Vec<u8> {
    [&wd(w, d)[..], &c.to_be_bytes(), &o.to_be_bytes()].concat()
}

fn by_last(row: &[u8]) -> Vec<u8> {
    // The fields before the name alone: a row has half a kilobyte of text behind it.
    let from = &mut &row[..];
    let (w, d) = (crate::row::Field::read(from), crate::row::Field::read(from));
    let _: u32 = crate::row::Field::read(from);
    let _: (String, String) = (crate::row::Field::read(from), crate::row::Field::read(from));
    let last: String = crate::row::Field::read(from);
    last_key(w, d, &last)
}

fn by_customer(row: &[u8]) -> Vec<u8> {
    let order = Order::of(row);
    customer_order_key(order.w, order.d, order.customer, order.id)
}

fn by_order(row: &[u8]) -> Vec<u8> {
    let from = &mut &row[..];
    let (w, d) = (crate::row::Field::read(from), crate::row::Field::read(from));
    key_in_district(w, d, crate::row::Field::read(from)).to_vec()
}

/// The standard's names: three syllables for three digits.
pub fn last_name(number: u32) -> String {
    const OF: [&str; 10] = [
        "BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING",
    ];
    [100, 10, 1]
        .map(|digit| OF[(number / digit % 10) as usize])
        .concat()
}

/// The standard's skewed numbers, from `x` to `y`.
pub fn skewed(rng: &mut Rng, a: u64, x: u32, y: u32) -> u32 {
    let span = u64::from(y - x) + 1;
    let low = rng.below(a + 1);
    let high = u64::from(x) + rng.below(span);
    x + ((low | high) % span) as u32
}
