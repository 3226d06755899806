//! The workloads: YCSB's six, and six more.

use crate::rng::Rng;

/// One kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A point read.
    Read,
    /// A write of a whole value over an existing record.
    Update,
    /// A new record.
    Insert,
    /// A range scan of up to [`LONGEST_SCAN`] records.
    Scan,
    /// An atomic read, change and write of one record.
    ReadModifyWrite,
    /// A transaction that reads two records and changes both.
    Transfer,
    /// Reads of some records together, [`MANY`] unless the plan says another number.
    MultiGet,
}

/// Records that one multi-get asks for, unless the plan says another number.
pub const MANY: usize = 64;

/// The most that a plan may say.
pub const MOST_TOGETHER: usize = 100_000;

/// The most records that one scan asks for; the length is drawn evenly from 1 up.
pub const LONGEST_SCAN: u64 = 100;

impl Operation {
    /// All of them, in the order of their numbers.
    pub const ALL: [Operation; 7] = [
        Operation::Read,
        Operation::Update,
        Operation::Insert,
        Operation::Scan,
        Operation::ReadModifyWrite,
        Operation::Transfer,
        Operation::MultiGet,
    ];

    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Read => "read",
            Operation::Update => "update",
            Operation::Insert => "insert",
            Operation::Scan => "scan",
            Operation::ReadModifyWrite => "read_modify_write",
            Operation::Transfer => "transfer",
            Operation::MultiGet => "multi_get",
        }
    }
}

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// YCSB A: half reads, half updates.
    A,
    /// YCSB B: 95 % reads, 5 % updates.
    B,
    /// YCSB C: reads.
    C,
    /// YCSB D: 95 % reads, mostly of the newest records, and 5 % inserts.
    D,
    /// YCSB E: 95 % scans of up to 100 records, 5 % inserts.
    E,
    /// YCSB F: half reads, half read-modify-writes.
    F,
    /// Loading the records; nothing is run after it.
    Load,
    /// 95 % scans of up to 100 records, 5 % updates: E on data that does not grow.
    Scan,
    /// Reads, most of which go to a few records, evenly.
    Hotspot,
    /// Reads whose hot set moves elsewhere half-way.
    Shift,
    /// Transactions that read two records and change both.
    Transfer,
    /// Reads of some records together.
    MultiGet,
}

impl Workload {
    /// All of them.
    pub const ALL: [Workload; 12] = [
        Workload::A,
        Workload::B,
        Workload::C,
        Workload::D,
        Workload::E,
        Workload::F,
        Workload::Load,
        Workload::Scan,
        Workload::Hotspot,
        Workload::Shift,
        Workload::Transfer,
        Workload::MultiGet,
    ];

    /// The name used on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Workload::A => "a",
            Workload::B => "b",
            Workload::C => "c",
            Workload::D => "d",
            Workload::E => "e",
            Workload::F => "f",
            Workload::Load => "load",
            Workload::Scan => "scan",
            Workload::Hotspot => "hotspot",
            Workload::Shift => "shift",
            Workload::Transfer => "transfer",
            Workload::MultiGet => "multiget",
        }
    }

    /// The workload of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|w| w.name().eq_ignore_ascii_case(name))
    }

    /// Which operations it is made of, in percent. They add up to a hundred.
    pub fn mix(self) -> &'static [(Operation, u64)] {
        use Operation::*;
        match self {
            Workload::A => &[(Read, 50), (Update, 50)],
            Workload::B => &[(Read, 95), (Update, 5)],
            Workload::C | Workload::Hotspot | Workload::Shift => &[(Read, 100)],
            Workload::D => &[(Read, 95), (Insert, 5)],
            Workload::E => &[(Scan, 95), (Insert, 5)],
            Workload::F => &[(Read, 50), (ReadModifyWrite, 50)],
            Workload::Load => &[(Insert, 100)],
            Workload::Scan => &[(Scan, 95), (Update, 5)],
            Workload::Transfer => &[(Transfer, 100)],
            Workload::MultiGet => &[(MultiGet, 100)],
        }
    }

    /// Whether the distribution is over the age of records (newest first) and not over the records.
    pub fn favours_newest(self) -> bool {
        self == Workload::D
    }

    /// Whether every access is to one record chosen by the distribution, so that the share of
    /// accesses outside the best set of records is the least number of page reads per operation.
    pub fn has_static_optimum(self) -> bool {
        !matches!(
            self,
            Workload::E | Workload::Scan | Workload::Load | Workload::Transfer | Workload::MultiGet
        )
    }

    /// The next operation.
    #[inline]
    pub fn draw(self, rng: &mut Rng) -> Operation {
        let mix = self.mix();
        if let [(only, _)] = mix {
            return *only;
        }
        let mut at = rng.below(100);
        for &(operation, percent) in mix {
            if at < percent {
                return operation;
            }
            at -= percent;
        }
        mix[0].0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_are_whole_and_drawn_as_named() {
        let mut rng = Rng::new(1);
        for workload in Workload::ALL {
            assert_eq!(workload.mix().iter().map(|m| m.1).sum::<u64>(), 100);
            let mut seen = [0u64; Operation::ALL.len()];
            (0..100_000).for_each(|_| seen[workload.draw(&mut rng) as usize] += 1);
            for &(operation, percent) in workload.mix() {
                let count = seen[operation as usize];
                assert!(
                    count.abs_diff(percent * 1000) < 700,
                    "{workload:?} {operation:?} {count}"
                );
            }
        }
    }

    #[test]
    fn names_lead_back() {
        for workload in Workload::ALL {
            assert_eq!(Workload::from_name(workload.name()), Some(workload));
        }
        assert_eq!(Workload::from_name("F"), Some(Workload::F));
        assert_eq!(Workload::from_name("g"), None);
    }

    #[test]
    fn operations_are_numbered_in_order() {
        for (i, operation) in Operation::ALL.into_iter().enumerate() {
            assert_eq!(operation as usize, i);
        }
    }
}
