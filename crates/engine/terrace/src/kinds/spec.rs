//! What a structure is: its kind, tiers, policy and whether the log keeps it; chosen at creation.

use terrace_base::{Error, Result};
use terrace_pages::{HOT_IN_MEMORY, UNLOGGED_IN_MEMORY};

use crate::kinds::Kind;
use crate::kinds::{Variant, kind_of_byte};
use crate::planted::hot_is_in_memory;

/// In how many tiers a structure keeps its records.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tiers {
    /// One: the plain access method, for data without skew and for comparison.
    One,
    /// Two: hot records in memory in a small structure of their own, the rest on disk.
    #[default]
    Two,
}

/// Which records the hot tier takes in and which it lets go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Policy {
    /// Three-bit use counts; a record that was read comes into a full hot tier only if it displaces one
    /// that is used less.
    #[default]
    Default,
    /// That of the paper, as the baseline: sampled admission, one reference bit, a clock.
    Paper,
}

/// How the data pages of an LSM-tree are compressed, as merging makes them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// With LZ4, where a page takes in more records so.
    Lz4 {
        /// In this many levels, counted from the last one, which has most of what there is: 1 to 8.
        levels: u8,
    },
}

/// Most levels that an LSM-tree has.
const MOST_LEVELS: u8 = 8;

impl Compression {
    /// LZ4 in the last level, where looks hardly pay for it: what is newer lies above.
    pub const LZ4: Compression = Compression::Lz4 { levels: 1 };

    /// In how many levels.
    pub fn levels(self) -> u8 {
        match self {
            Compression::None => 0,
            Compression::Lz4 { levels } => levels,
        }
    }

    /// What is compressed in `levels` levels; `None` where there cannot be as many.
    pub(crate) fn of_levels(levels: u8) -> Option<Compression> {
        match levels {
            0 => Some(Compression::None),
            1..=MOST_LEVELS => Some(Compression::Lz4 { levels }),
            _ => None,
        }
    }

    /// Refuses what no structure of a kind can have.
    pub(crate) fn check(self, kind: Kind) -> Result<()> {
        if self == Compression::None {
            return Ok(());
        }
        if !kind.row().may_be_compressed {
            let what = format!("a {kind} cannot be compressed; an LSM-tree can");
            return Err(Error::invalid(what));
        }
        match self.levels() {
            1..=MOST_LEVELS => Ok(()),
            n => Err(Error::invalid(format!(
                "{n} levels cannot be compressed; choose 1 to {MOST_LEVELS}, counted from the last one"
            ))),
        }
    }
}

/// What a structure is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spec {
    /// Its kind.
    pub kind: Kind,
    /// Its tiers.
    pub tiers: Tiers,
    /// Its policy; means nothing with one tier.
    pub policy: Policy,
    /// Whether a promoted record stays in the cold tier too.
    pub inclusive: bool,
    /// Whether its changes go to the log.
    pub logged: bool,
    /// Whether each tier of a hash table has a hash function of its own.
    pub apart: bool,
    /// Whether the hot tier of a table is a heap with an index, as the cold one is, and not a tree of rows.
    pub hot_heap: bool,
    /// How its pages were to be compressed when it was made; what is so now stands in its entry.
    pub compression: Compression,
    /// Whether each value has a lease in front, and records may expire.
    pub expiring: bool,
    /// Whether the hot tier lies in memory alone, and what is dirty in it is saved.
    pub in_memory: bool,
    /// Whether it could, and was made to have its pages in the file: no opening changes that.
    pub stays_in_file: bool,
}

/// Bytes that [`Spec::encode`] appends.
pub const SPEC_BYTES: usize = 4;
/// In the byte of the tiers: two, of which the hot one lies in memory alone.
const TWO_IN_MEMORY: u8 = 3;
/// Two, of which the hot one could lie in memory alone, and stays in the file.
const TWO_IN_FILE: u8 = 4;
const INCLUSIVE: u8 = 1;
const UNLOGGED: u8 = 2;
const APART: u8 = 4;
/// Tables that were made before there was a choice have a heap in both tiers, and no flag.
const HOT_TREE: u8 = 8;
/// In the byte of the policy.
const EXPIRING: u8 = 0x80;
/// The upper four bits are how many levels are compressed.
const LEVELS_SHIFT: u32 = 4;

impl Spec {
    /// Appends kind, tiers, policy and flags, a byte each.
    pub fn encode(self, out: &mut Vec<u8>) {
        let tiers = match self.tiers {
            Tiers::One => 1,
            Tiers::Two if self.in_memory => TWO_IN_MEMORY,
            Tiers::Two if self.stays_in_file => TWO_IN_FILE,
            Tiers::Two => 2,
        };
        let policy = match self.policy {
            Policy::Default => 0,
            Policy::Paper => 1,
        } | if self.expiring { EXPIRING } else { 0 };
        let inclusive = if self.inclusive { INCLUSIVE } else { 0 };
        let unlogged = if self.logged { 0 } else { UNLOGGED };
        let apart = if self.apart { APART } else { 0 };
        let is_tree = self.has_hot_rows() && !self.hot_heap;
        let hot_tree = if is_tree { HOT_TREE } else { 0 };
        let levels = self.compression.levels() << LEVELS_SHIFT;
        let flags = inclusive | unlogged | apart | hot_tree | levels;
        out.extend_from_slice(&[self.kind.row().byte, tiers, policy, flags]);
    }

    /// Whether it has a hot tier of rows.
    fn has_hot_rows(self) -> bool {
        self.kind.row().may_have_hot_heap && self.tiers == Tiers::Two
    }

    /// Which variant of its kind it is.
    pub fn variant(self) -> Variant {
        Variant {
            apart: self.apart,
            hot_heap: self.hot_heap,
        }
    }

    /// Whether the hot tier may lie in memory alone, and does where nothing else is said.
    pub fn may_be_in_memory(self) -> bool {
        let in_memory = Spec {
            in_memory: true,
            ..self
        };
        self.tiers == Tiers::Two && self.policy == Policy::Default && in_memory.check().is_ok()
    }

    /// One that is made like this, and stays where it is.
    pub(crate) fn chosen(self) -> Spec {
        let could = self.may_be_in_memory() && hot_is_in_memory();
        Spec {
            stays_in_file: could && !self.in_memory,
            ..self
        }
    }

    /// What it is from now on that is of a database of this earlier `version`.
    pub fn brought_over(self, version: u32) -> Spec {
        let newest = match self.logged {
            true => HOT_IN_MEMORY,
            false => UNLOGGED_IN_MEMORY,
        };
        let comes = version < newest && !self.stays_in_file && self.may_be_in_memory();
        Spec {
            in_memory: self.in_memory || comes,
            ..self
        }
    }

    /// Refuses what nothing can be.
    pub fn check(self) -> Result<Spec> {
        let (row, two) = (self.kind.row(), self.tiers == Tiers::Two);
        if self.apart && !(row.may_be_apart && two) {
            let what = "only a hash table with two tiers can have a hash function for each of them";
            return Err(Error::invalid(what));
        }
        if let Some(what) = row.inclusive_only
            && !self.inclusive
            && two
        {
            return Err(Error::invalid(what));
        }
        if self.hot_heap && !self.has_hot_rows() {
            let what = "only a table with two tiers can have a heap as its hot tier";
            return Err(Error::invalid(what));
        }
        if self.in_memory && !(two && self.inclusive && !self.hot_heap) {
            let what = "a hot tier lies in memory alone only where promoted records stay below, and it is no heap";
            return Err(Error::invalid(what));
        }
        self.compression.check(self.kind)?;
        Ok(self)
    }
}

/// Takes a spec off the front of `bytes`; `None` for what [`Spec::encode`] never wrote.
pub fn decode_spec(bytes: &mut &[u8]) -> Option<Spec> {
    let (&[kind, tiers, policy, flags], rest) = bytes.split_first_chunk::<SPEC_BYTES>()?;
    *bytes = rest;
    let mut spec = Spec {
        kind: kind_of_byte(kind)?,
        tiers: match tiers {
            1 => Tiers::One,
            2 | TWO_IN_MEMORY | TWO_IN_FILE => Tiers::Two,
            _ => return None,
        },
        policy: match policy & !EXPIRING {
            0 => Policy::Default,
            1 => Policy::Paper,
            _ => return None,
        },
        inclusive: flags & INCLUSIVE != 0,
        logged: flags & UNLOGGED == 0,
        apart: flags & APART != 0,
        hot_heap: false,
        compression: Compression::of_levels(flags >> LEVELS_SHIFT)?,
        expiring: policy & EXPIRING != 0,
        in_memory: tiers == TWO_IN_MEMORY,
        stays_in_file: tiers == TWO_IN_FILE,
    };
    let is_tree = flags & HOT_TREE != 0;
    if is_tree && !spec.has_hot_rows() {
        return None;
    }
    spec.hot_heap = spec.has_hot_rows() && !is_tree;
    if spec.stays_in_file && !spec.may_be_in_memory() {
        return None;
    }
    spec.check().ok()
}

/// How a tree is to be made or is expected to be.
pub type TreeOptions = MapOptions;
/// How a hash table is to be made or is expected to be.
pub type HashOptions = MapOptions;
/// How an LSM-tree is to be made or is expected to be.
pub type LsmOptions = MapOptions;

/// How a structure is to be made, or what an existing one is expected to be. What is not said is not
/// checked, and takes its default in a new structure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "options do nothing until something is opened or made with them"]
pub struct MapOptions {
    tiers: Option<Tiers>,
    policy: Option<Policy>,
    inclusive: Option<bool>,
    logged: Option<bool>,
    apart: Option<bool>,
    hot_heap: Option<bool>,
    compression: Option<Compression>,
    expiring: Option<bool>,
    in_memory: Option<bool>,
}

impl MapOptions {
    /// Nothing said.
    pub fn new() -> MapOptions {
        MapOptions::default()
    }

    /// In how many tiers the records are kept; two by default.
    pub fn tiers(mut self, tiers: Tiers) -> MapOptions {
        self.tiers = Some(tiers);
        self
    }

    /// The policy of the hot tier, for comparison.
    #[cfg(feature = "paper")]
    pub fn policy(mut self, policy: Policy) -> MapOptions {
        self.policy = Some(policy);
        self
    }

    /// Whether promoted records stay in the cold tier too. Inclusive tiers (the default) take a
    /// little more disk, and let clean records go without a write.
    pub fn inclusive(mut self, inclusive: bool) -> MapOptions {
        self.inclusive = Some(inclusive);
        self
    }

    /// Whether changes go to the log (the default). Without it the structure is faster to load, and
    /// after a crash stands at the last checkpoint. While a checkpoint saves its hot tier the log has its changes all the
    /// same. Checkpoints come as the log or the data file grows,
    /// so in a database with little in its log that may be long ago: see
    /// [`crate::Database::checkpoint`].
    pub fn logged(mut self, logged: bool) -> MapOptions {
        self.logged = Some(logged);
        self
    }

    /// Whether the two tiers of a hash table have a hash function each instead of sharing one: for
    /// comparison. What leaves the hot tier is then written record by record, and there is no order to
    /// go through all records by: doing so is an error.
    #[cfg(feature = "paper")]
    pub fn own_hashes(mut self, apart: bool) -> MapOptions {
        self.apart = Some(apart);
        self
    }

    /// Whether the hot tier of a table is a heap with an index, as the cold one is: the paper's 2Heap, for
    /// comparison, and what tables have that were made before there was a choice. Else it is a tree of rows,
    /// which takes in more of them and gives them up with less work. `SweepOrder::Heap` has a
    /// meaning only with a heap.
    #[cfg(feature = "paper")]
    pub fn hot_heap(mut self, hot_heap: bool) -> MapOptions {
        self.hot_heap = Some(hot_heap);
        self
    }

    /// How the data pages of an LSM-tree are compressed; by default not at all. Said of one that is there it
    /// holds for what is merged from then on, in it and after the next openings; what lies there stays as it
    /// is until it is merged. Records that only a chain of pages has room for are not compressed, nor are those
    /// in a page with one. A lookup decompresses a quarter of a page; the memory has as many more records of
    /// the cold tier.
    pub fn compression(mut self, compression: Compression) -> MapOptions {
        self.compression = Some(compression);
        self
    }

    /// Whether the hot tier lies in memory alone (`true` by default where that can be): its pages have no place in the file,
    /// and what is dirty in them is saved bit by bit. The file is half as long while records change, and reads write
    /// nothing once all is at rest. An opening brings in what was hot by and by; a saved page that cannot be read then is an
    /// error of its keys. Versions that do not know it refuse the file.
    /// Only with tiers that include one another, and for a table not with a heap above.
    /// `docs/decisions/hot-in-memory.md` has the figures.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = terrace::Database::open(dir.path(), terrace::Options::new().memory(16 << 20))?;
    /// let carts = db.create_tree("carts", terrace::MapOptions::new().hot_in_memory(false))?;
    /// carts.put("anna", "3 apples")?;
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn hot_in_memory(mut self, in_memory: bool) -> MapOptions {
        self.in_memory = Some(in_memory);
        self
    }

    /// Its records may expire: [`crate::Map::put_for`] says when. That is so for good; a structure that is there
    /// becomes one by [`crate::Map::iter`] into a new one, or `terrace dump` and `terrace load`. A value takes a
    /// byte more than otherwise, seven if it is to expire.
    pub fn expiring(mut self) -> MapOptions {
        self.expiring = Some(true);
        self
    }

    /// What was said of compression.
    pub(crate) fn said_of_compression(&self) -> Option<Compression> {
        self.compression
    }

    pub(crate) fn spec(self, kind: Kind) -> Spec {
        let spec = Spec {
            kind,
            tiers: self.tiers.unwrap_or_default(),
            policy: self.policy.unwrap_or_default(),
            inclusive: self.inclusive.unwrap_or(true),
            logged: self.logged.unwrap_or(true),
            apart: self.apart.unwrap_or(false),
            hot_heap: self.hot_heap.unwrap_or(false),
            compression: self.compression.unwrap_or_default(),
            expiring: self.expiring.unwrap_or(false),
            in_memory: false,
            stays_in_file: false,
        };
        let by_default = || spec.may_be_in_memory() && hot_is_in_memory();
        let in_memory = self.in_memory.unwrap_or_else(by_default);
        Spec { in_memory, ..spec }.chosen()
    }

    /// Refuses a structure that is something else than what was said; of any kind, if none is.
    pub(crate) fn check(self, name: &str, kind: Option<Kind>, is: Spec) -> Result<()> {
        let differs = |is: &dyn std::fmt::Display, wanted: &dyn std::fmt::Display| {
            Err(Error::invalid(format!(
                "\"{name}\" is a {is}, and was opened as a {wanted}; open it as what it is, or choose another name"
            )))
        };
        if let Some(kind) = kind
            && kind != is.kind
        {
            return differs(&is.kind, &kind);
        }
        let kind = is.kind;
        if let Some(tiers) = self.tiers
            && tiers != is.tiers
        {
            let of = |tiers| match tiers {
                Tiers::One => format!("{kind} with one tier"),
                Tiers::Two => format!("{kind} with two tiers"),
            };
            return differs(&of(is.tiers), &of(tiers));
        }
        if let Some(policy) = self.policy
            && policy != is.policy
        {
            let of = |policy: Policy| format!("{kind} with the policy {policy:?}");
            return differs(&of(is.policy), &of(policy));
        }
        if let Some(inclusive) = self.inclusive
            && inclusive != is.inclusive
        {
            let of = |inclusive| match inclusive {
                true => format!("{kind} with inclusive tiers"),
                false => format!("{kind} with exclusive tiers"),
            };
            return differs(&of(is.inclusive), &of(inclusive));
        }
        if let Some(logged) = self.logged
            && logged != is.logged
        {
            let of = |logged| match logged {
                true => format!("{kind} that the log keeps"),
                false => format!("{kind} without log"),
            };
            return differs(&of(is.logged), &of(logged));
        }
        if let Some(apart) = self.apart
            && apart != is.apart
        {
            let of = |apart| match apart {
                true => format!("{kind} whose tiers have hash functions of their own"),
                false => format!("{kind} whose tiers share a hash function"),
            };
            return differs(&of(is.apart), &of(apart));
        }
        if let Some(hot_heap) = self.hot_heap
            && hot_heap != is.hot_heap
        {
            let of = |hot_heap| match hot_heap {
                true => format!("{kind} whose hot tier is a heap"),
                false => format!("{kind} whose hot tier is no heap"),
            };
            return differs(&of(is.hot_heap), &of(hot_heap));
        }
        if let Some(in_memory) = self.in_memory
            && in_memory != is.in_memory
        {
            let of = |in_memory| match in_memory {
                true => format!("{kind} whose hot tier lies in memory alone"),
                false => format!("{kind} whose hot tier lies in the file"),
            };
            return differs(&of(is.in_memory), &of(in_memory));
        }
        if let Some(expiring) = self.expiring
            && expiring != is.expiring
        {
            let of = |expiring| match expiring {
                true => format!("{kind} whose records may expire"),
                false => format!("{kind} whose records stay"),
            };
            return differs(&of(is.expiring), &of(expiring));
        }
        Ok(())
    }
}

/// Longest name of a structure, in bytes: its catalog entry must fit the smallest page four times.
pub const MAX_NAME_BYTES: usize = 255;

/// Refuses names that could not be printed, typed or stored.
pub fn check_name(name: &str) -> Result<()> {
    check_named(name, "structure")
}

/// Refuses what can be the name of nothing of that kind.
pub fn check_named(name: &str, kind: &str) -> Result<()> {
    let what = if name.is_empty() {
        "is empty"
    } else if name.len() > MAX_NAME_BYTES {
        "is too long"
    } else if name.chars().any(char::is_control) {
        "has control characters"
    } else if name.trim() != name {
        "begins or ends with a space"
    } else {
        return Ok(());
    };
    let shown: String = name.chars().take(40).collect();
    Err(Error::invalid(format!(
        "{shown:?} cannot be the name of a {kind} because it {what}; use 1 to {MAX_NAME_BYTES} bytes of text"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spec_comes_back_and_nothing_else_does() {
        let mut seen = 0;
        for bytes in 0..=u16::MAX {
            let bytes = [
                (bytes >> 12) as u8,
                (bytes >> 8 & 15) as u8,
                (bytes >> 4 & 15) as u8,
                bytes as u8 & 15,
            ];
            // No other kind has levels that could be compressed.
            for levels in 1..16 {
                let bytes = [bytes[0], bytes[1], bytes[2], bytes[3] | levels << 4];
                let spec = decode_spec(&mut &bytes[..]);
                let plain = decode_spec(&mut &[bytes[0], bytes[1], bytes[2], bytes[3] & 15][..]);
                let may = bytes[0] == 3 && levels <= 8;
                assert_eq!(spec.is_some(), plain.is_some() && may, "{bytes:?}");
                if let Some(spec) = spec {
                    let mut out = Vec::new();
                    spec.encode(&mut out);
                    assert_eq!(out, bytes);
                }
            }
            if let Some(spec) = decode_spec(&mut &bytes[..]) {
                let mut out = Vec::new();
                spec.encode(&mut out);
                assert_eq!(out, bytes);
                seen += 1;
            }
        }
        // Tables that were made before a flag said so have a heap in both tiers.
        let heap_above = |flags| decode_spec(&mut &[2, 2, 0, flags][..]).unwrap().hot_heap;
        assert!(heap_above(0) && heap_above(3) && !heap_above(8) && !heap_above(11));
        // And tiers apart, or a heap above, for one kind and number of tiers; one kind is always inclusive
        // with two.
        // The hot tier of each that has two, is inclusive, and is no heap, may lie in memory alone, with a log or without.
        let in_memory = (4 * 2 + 2) * 2;
        // With the default policy it may stay in the file, too.
        let stays = in_memory / 2;
        assert_eq!(
            seen,
            4 * 2 * 2 * 4 + 2 * 4 + 2 * 4 - 2 * 2 + in_memory + stays
        );
        // With or without a lease in front of the values.
        let mut expiring = Vec::new();
        let options = MapOptions::new().tiers(Tiers::One).expiring();
        options.spec(Kind::Hash).encode(&mut expiring);
        assert_eq!(expiring, [1, 1, 0x80, 1]);
        assert!(decode_spec(&mut &expiring[..]).unwrap().expiring);
        assert!(!decode_spec(&mut &[1, 1, 0, 1][..]).unwrap().expiring);
        assert!(decode_spec(&mut &[1, 1, 0x82, 1][..]).is_none());
        assert!(decode_spec(&mut &[0, 1, 0][..]).is_none());
    }

    #[test]
    fn names_that_cannot_be_typed_are_refused() {
        for bad in ["", " a", "a\n", "\0", &"x".repeat(256)] {
            assert!(check_name(bad).is_err(), "{bad:?}");
        }
        for good in ["a", "größe/2", "a b", &"x".repeat(255)] {
            check_name(good).unwrap();
        }
    }

    #[test]
    fn a_wrong_expectation_names_both() {
        let spec = MapOptions::new().tiers(Tiers::One).spec(Kind::Tree);
        let check = |options: MapOptions| options.check("t", Some(Kind::Tree), spec);
        let refused = |options| check(options).unwrap_err().to_string();
        let e = refused(MapOptions::new().tiers(Tiers::Two));
        assert!(e.contains("one tier") && e.contains("two tiers"), "{e}");
        check(MapOptions::new()).unwrap();
        assert!(check(MapOptions::new().logged(false)).is_err());
        assert!(check(MapOptions::new().policy(Policy::Paper)).is_err());
        assert!(check(MapOptions::new().inclusive(false)).is_err());
        let e = MapOptions::new().check("t", Some(Kind::Hash), spec);
        let e = e.unwrap_err().to_string();
        assert!(e.contains("is a tree") && e.contains("a hash table"), "{e}");
        MapOptions::new().check("t", None, spec).unwrap();
    }
}
