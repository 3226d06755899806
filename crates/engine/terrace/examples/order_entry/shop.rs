//! The schema: nine tables, two indexes. And the random numbers that clerks and customers go by.

use terrace::encode::key;
use terrace::{Database, Index, Options, Table, TableOptions};

use super::rows::{Customer, Order, Stop};

/// How much there is. The standard has 10 districts of 3,000 customers, and 100,000 items.
#[derive(Clone, Copy)]
pub struct Size {
    pub warehouses: u16,
    pub districts: u8,
    pub customers: u32,
    pub items: u32,
}

/// The tables. Handles are cheap to clone, and any thread may use them.
#[derive(Clone)]
pub struct Shop {
    /// The database, to close it or ask it.
    pub db: Database,
    pub size: Size,
    pub warehouses: Table,
    pub districts: Table,
    pub customers: Table,
    pub history: Table,
    pub orders: Table,
    pub new_orders: Table,
    pub lines: Table,
    pub items: Table,
    pub stock: Table,
}

impl Shop {
    /// Opens the tables, or makes them. Keys are made of parts in their order (`encode::key`), so the orders of a
    /// district are one range. What the catalog cannot know, the function of an index, is named at each opening.
    pub fn open(path: &str, memory: u64, size: Size) -> Result<Shop, Stop> {
        let db = Database::open(path, Options::new().memory(memory))?;
        let by_last = Index::by("last", |row| {
            let c: Customer = serde_json::from_slice(row).map_err(|e| e.to_string())?;
            Ok(Some(key((c.w, c.d, c.last))))
        });
        let by_customer = Index::by("customer", |row| {
            let o: Order = serde_json::from_slice(row).map_err(|e| e.to_string())?;
            Ok(Some(key((o.w, o.d, o.customer, o.id))))
        });
        Ok(Shop {
            size,
            warehouses: db.table("warehouses")?, // (warehouse)
            districts: db.table("districts")?,   // (warehouse, district)
            customers: db.table_with("customers", TableOptions::new().index(by_last))?, // (w, d, customer)
            history: db.table("history")?, // (w, d, customer, number of the payment)
            orders: db.table_with("orders", TableOptions::new().index(by_customer.unique()))?, // (w, d, order)
            new_orders: db.table("new_orders")?, // (w, d, order): not delivered yet
            lines: db.table("lines")?,           // (w, d, order, number)
            items: db.table("items")?,           // (item)
            stock: db.table("stock")?,           // (warehouse, item)
            db,
        })
    }

    pub fn district(&self, rng: &mut Random) -> u8 {
        1 + rng.below(u64::from(self.size.districts)) as u8
    }

    pub fn warehouse(&self, rng: &mut Random) -> u16 {
        1 + rng.below(u64::from(self.size.warehouses)) as u16
    }
}

/// Orders up to this one are delivered when a shop is new.
pub fn first_open(size: Size) -> u32 {
    size.customers * 7 / 10
}

/// The standard's names: three syllables for three digits.
pub fn last_name(number: u32) -> String {
    let of = [
        "BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING",
    ];
    [100, 10, 1]
        .map(|digit| of[(number / digit % 10) as usize])
        .concat()
}

/// Any numbers: splitmix64.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % n
    }

    /// The standard's skew: some are asked for more often than others.
    pub fn skewed(&mut self, a: u64, n: u32) -> u32 {
        1 + ((self.below(a + 1) | self.below(u64::from(n))) % u64::from(n)) as u32
    }

    pub fn customer(&mut self, size: Size) -> u32 {
        self.skewed(1023, size.customers)
    }

    pub fn item(&mut self, size: Size) -> u32 {
        self.skewed(8191, size.items)
    }
}
