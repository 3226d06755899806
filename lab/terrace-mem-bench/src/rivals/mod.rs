//! The maps that are compared, one file each behind one trait.

mod art;
mod blart;
mod brie;
mod hybrid;
mod indexset;
mod masstree;
mod rival;
mod skiplist;
mod std_btree;
#[cfg(test)]
mod tests;

pub use rival::{Maker, Rival};

/// Those that take integers. The first is what the others are measured by.
pub fn for_ints() -> Vec<Maker<u64>> {
    let mut all = vec![Maker::usual("BTreeMap", || {
        Box::new(std_btree::Ints::default())
    })];
    all.extend(hybrid::ints());
    all.push(Maker::usual("crossbeam-skiplist", || {
        Box::new(skiplist::Ints::default())
    }));
    all.push(Maker::usual("indexset", || {
        Box::new(indexset::Ints::default())
    }));
    all.push(Maker::usual(
        "brie-tree",
        || Box::new(brie::Ints::default()),
    ));
    all.push(Maker::usual("rart", || Box::new(art::Ints::default())));
    all.push(Maker::usual("blart", || Box::new(blart::Ints::default())));
    all.push(Maker::usual("masstree", || {
        Box::new(masstree::Ints::default())
    }));
    all
}

/// Those that take byte strings. The first is what the others are measured by.
pub fn for_bytes() -> Vec<Maker<[u8]>> {
    let mut all = vec![Maker::usual("BTreeMap", || {
        Box::new(std_btree::Bytes::default())
    })];
    all.extend(hybrid::bytes());
    all.push(Maker::usual("crossbeam-skiplist", || {
        Box::new(skiplist::Bytes::default())
    }));
    all.push(Maker::usual("indexset", || {
        Box::new(indexset::Bytes::default())
    }));
    all.push(Maker::usual("rart", || Box::new(art::Bytes::default())));
    all.push(Maker::usual("blart", || Box::new(blart::Bytes::default())));
    all
}
