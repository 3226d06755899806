//! Placements of pages, as kernels and page managers make them.

use super::{Rival, Table};
use terrace_place::Tier;

/// Bytes of a small page.
pub const PAGE_4K: u64 = 4096;
/// Bytes of a large page.
pub const PAGE_2M: u64 = 2 << 20;

/// Pages, and which of them are fast.
#[derive(Debug)]
pub struct Pages {
    bytes: u64,
    fast: Vec<bool>,
    used: usize,
    room: usize,
    nodes: Vec<u32>,
    moves: u64,
}

impl Pages {
    fn new(bytes: u64) -> Pages {
        Pages {
            bytes,
            fast: vec![],
            used: 0,
            room: 0,
            nodes: vec![],
            moves: 0,
        }
    }

    /// The page of a node: where it begins.
    fn of(&self, table: &Table, node: u32) -> usize {
        table
            .node(node)
            .map_or(0, |e| (e.address / self.bytes) as usize)
    }

    /// Pages are fast in the order of allocation, until fast memory is full.
    fn settle(&mut self, table: &Table, fast_bytes: u64) {
        // At least two pages of each kind, so that something can move in a small tree.
        while self.bytes > PAGE_4K && fast_bytes / self.bytes < 2 {
            self.bytes /= 2;
        }
        self.room = (fast_bytes / self.bytes) as usize;
        self.grow(table);
        for node in 0..table.len() as u32 {
            if table.node(node).is_none_or(|node| node.gone) {
                continue;
            }
            let page = self.of(table, node);
            self.nodes[page] += 1;
        }
    }

    /// Pages that the tree got meanwhile.
    fn grow(&mut self, table: &Table) {
        let pages = table.reach().div_ceil(self.bytes) as usize + 1;
        while self.fast.len() < pages {
            let fast = self.used < self.room;
            self.used += usize::from(fast);
            self.fast.push(fast);
            self.nodes.push(0);
        }
    }

    fn set(&mut self, page: usize, fast: bool) {
        if self.fast[page] != fast {
            self.fast[page] = fast;
            self.moves += u64::from(self.nodes[page]);
            if fast {
                self.used += 1;
            } else {
                self.used -= 1;
            }
        }
    }

    fn tier(&self, table: &Table, node: u32) -> Tier {
        match self.fast.get(self.of(table, node)) {
            Some(true) => Tier::Fast,
            _ => Tier::Slow,
        }
    }
}

/// As MEMTIS places: one in some missing touches is sampled, a histogram of octaves to the
/// capacity says which pages are hot, migration and cooling go by operations.
#[derive(Debug)]
pub struct Memtis {
    pages: Pages,
    heat: Vec<u32>,
    /// Missing touches for each sample, operations for each migration, and for each cooling.
    sample: u64,
    migrate: u64,
    cool: u64,
    missing: u64,
    next: u64,
    operations: u64,
    random: u64,
}

impl Memtis {
    /// With pages of this many bytes; its intervals are in units of `operations`.
    pub fn new(page: u64, operations: u64) -> Memtis {
        Memtis {
            pages: Pages::new(page),
            heat: vec![],
            sample: 32,
            migrate: operations.max(1),
            cool: operations.max(1) * 4,
            missing: 0,
            next: 1,
            operations: 0,
            random: 0x9E37_79B9_7F4A_7C15,
        }
    }

    fn migrate(&mut self) {
        let mut order: Vec<usize> = (0..self.pages.fast.len()).collect();
        let octave = |heat: u32| 32 - heat.leading_zeros();
        order.sort_by_key(|&p| (std::cmp::Reverse(octave(self.heat[p])), !self.pages.fast[p]));
        let room = self.pages.room.min(order.len());
        for &page in &order[room..] {
            self.pages.set(page, false);
        }
        for &page in &order[..room] {
            self.pages.set(page, true);
        }
    }
}

impl Rival for Memtis {
    fn settle(&mut self, table: &Table, fast_bytes: u64) {
        self.pages.settle(table, fast_bytes);
    }

    fn touch(&mut self, table: &Table, node: u32, missing: bool) {
        if !missing {
            return;
        }
        self.missing += 1;
        if self.missing < self.next {
            return;
        }
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.next = self.missing + 1 + self.random % (2 * self.sample - 1);
        self.pages.grow(table);
        let page = self.pages.of(table, node);
        if self.heat.len() <= page {
            self.heat.resize(self.pages.fast.len(), 0);
        }
        self.heat[page] += 1;
    }

    fn tick(&mut self, table: &Table) {
        self.operations += 1;
        if self.operations.is_multiple_of(self.migrate) {
            self.pages.grow(table);
            self.heat.resize(self.pages.fast.len(), 0);
            self.migrate();
        }
        if self.operations.is_multiple_of(self.cool) {
            self.heat.iter_mut().for_each(|heat| *heat /= 2);
        }
    }

    fn tier(&self, table: &Table, node: u32) -> Tier {
        self.pages.tier(table, node)
    }

    fn moves(&self) -> u64 {
        self.pages.moves
    }
}

/// As TPP places: slow pages are armed in each scan and promoted at their second hint; pages that
/// were idle for two scans make room, none is forced out.
#[derive(Debug)]
pub struct Tpp {
    pages: Pages,
    scan: u64,
    operations: u64,
    armed: Vec<bool>,
    hints: Vec<u8>,
    touched: Vec<bool>,
    wanted: Vec<usize>,
    hand: usize,
}

impl Tpp {
    /// With a scan every `operations` operations.
    pub fn new(operations: u64) -> Tpp {
        Tpp {
            pages: Pages::new(PAGE_4K),
            scan: operations.max(1),
            operations: 0,
            armed: vec![],
            hints: vec![],
            touched: vec![],
            wanted: vec![],
            hand: 0,
        }
    }

    fn resize(&mut self) {
        let pages = self.pages.fast.len();
        self.armed.resize(pages, false);
        self.hints.resize(pages, 0);
        self.touched.resize(pages, false);
    }

    fn promote(&mut self, page: usize) {
        let pages = self.pages.fast.len();
        let mut tries = 0;
        while self.pages.used >= self.pages.room && tries < 2 * pages {
            tries += 1;
            self.hand = (self.hand + 1) % pages;
            if self.pages.fast[self.hand] && self.hints[self.hand] == 0 {
                self.pages.set(self.hand, false);
            }
        }
        if self.pages.used < self.pages.room {
            self.pages.set(page, true);
        }
    }
}

impl Rival for Tpp {
    fn settle(&mut self, table: &Table, fast_bytes: u64) {
        self.pages.settle(table, fast_bytes);
        self.resize();
    }

    fn touch(&mut self, table: &Table, node: u32, _: bool) {
        let page = self.pages.of(table, node);
        if page >= self.touched.len() {
            self.pages.grow(table);
            self.resize();
        }
        self.touched[page] = true;
        if self.armed[page] {
            self.armed[page] = false;
            self.hints[page] += 1;
            if self.hints[page] >= 2 {
                self.hints[page] = 1;
                self.wanted.push(page);
            }
        }
    }

    fn tick(&mut self, _: &Table) {
        self.operations += 1;
        if !self.operations.is_multiple_of(self.scan) {
            return;
        }
        for page in std::mem::take(&mut self.wanted) {
            if !self.pages.fast[page] {
                self.promote(page);
            }
        }
        for page in 0..self.pages.fast.len() {
            let fast = self.pages.fast[page];
            self.armed[page] = !fast;
            if fast {
                self.hints[page] = if self.touched[page] {
                    2
                } else {
                    self.hints[page].saturating_sub(1)
                };
            }
            self.touched[page] = false;
        }
    }

    fn tier(&self, table: &Table, node: u32) -> Tier {
        self.pages.tier(table, node)
    }

    fn moves(&self) -> u64 {
        self.pages.moves
    }
}

/// As Caption places: pages interleaved by a ratio that climbs while the modelled time falls, up
/// to the limit. With a limit this is weighted interleaving.
#[derive(Debug)]
pub struct Caption {
    pages: Pages,
    period: u64,
    operations: u64,
    /// Fast pages that are wanted now.
    wanted: usize,
    touches: [u64; 2],
    last: f64,
    step: isize,
}

impl Caption {
    /// With a step every `operations` operations.
    pub fn new(operations: u64) -> Caption {
        Caption {
            pages: Pages::new(PAGE_4K),
            period: operations.max(1),
            operations: 0,
            wanted: 0,
            touches: [0; 2],
            last: f64::MAX,
            step: 1,
        }
    }

    /// Makes `self.wanted` pages fast, spread evenly.
    fn spread(&mut self) {
        let pages = self.pages.fast.len();
        for page in 0..pages {
            let fast = (page + 1) * self.wanted / pages > page * self.wanted / pages;
            self.pages.set(page, fast);
        }
    }
}

impl Rival for Caption {
    fn settle(&mut self, table: &Table, fast_bytes: u64) {
        self.pages.settle(table, fast_bytes);
        self.wanted = self.pages.room / 2;
        self.spread();
        self.pages.moves = 0;
    }

    fn touch(&mut self, table: &Table, node: u32, missing: bool) {
        if missing {
            self.touches[self.pages.tier(table, node) as usize] += 1;
        }
    }

    fn tick(&mut self, table: &Table) {
        self.operations += 1;
        if !self.operations.is_multiple_of(self.period) {
            return;
        }
        let [fast, slow] = std::mem::take(&mut self.touches).map(|n| n as f64);
        // Time of a touch where slow takes twice as long.
        let time = (fast + 2.0 * slow) / (fast + slow).max(1.0);
        if time > self.last {
            self.step = -self.step;
        }
        self.last = time;
        self.pages.grow(table);
        let step = self.step * (self.pages.room / 10).max(1) as isize;
        self.wanted = self
            .wanted
            .saturating_add_signed(step)
            .clamp(1, self.pages.room.max(1));
        self.spread();
    }

    fn tier(&self, table: &Table, node: u32) -> Tier {
        self.pages.tier(table, node)
    }

    fn moves(&self) -> u64 {
        self.pages.moves
    }
}
