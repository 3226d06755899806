//! Many sorted files as one: the records of all of them in order, and of each key the newest.

use std::cmp::Ordering;
use std::sync::Arc;

use terrace_base::Result;

use super::ahead::Ahead;
use super::record::Record;
use super::run_file::{Reader, Run};

/// A file, and the first bytes of the key that it is at.
struct Head {
    prefix: u64,
    /// Later ones are newer.
    age: usize,
    reader: Reader,
}

/// The merge of many sorted files.
pub(crate) struct Merge {
    /// A binary heap: none comes before its parent.
    heads: Vec<Head>,
    /// The key that came out last, once there was one.
    last: Option<Vec<u8>>,
}

impl Merge {
    /// The older of the files first. Reads a block of each, and with `threads` one more ahead.
    pub fn new(runs: Vec<Run>, threads: bool) -> Result<Merge> {
        let ahead = threads.then(Ahead::start).transpose()?.map(Arc::new);
        let readers = runs.into_iter().map(|run| Reader::new(run, ahead.clone()));
        let readers: Vec<_> = readers.collect();
        let mut heads = Vec::with_capacity(readers.len());
        for (age, mut reader) in readers.into_iter().enumerate() {
            if reader.advance()? {
                let prefix = reader.record().prefix();
                heads.push(Head {
                    prefix,
                    age,
                    reader,
                });
            }
        }
        let mut merge = Merge { heads, last: None };
        for i in (0..merge.heads.len() / 2).rev() {
            merge.sift(i);
        }
        Ok(merge)
    }

    /// The next record. O(log files), and a block now and then.
    pub fn next(&mut self) -> Result<Option<Record<'_>>> {
        if let Some(last) = &mut self.last {
            let record = self.heads.first().map(|head| head.reader.record());
            last.clear();
            last.extend_from_slice(record.map_or(&[], |record| record.key));
            self.advance()?;
            self.pass_over()?;
        } else {
            self.last = Some(Vec::new());
        }
        Ok(self.heads.first().map(|head| head.reader.record()))
    }

    /// Passes over what is older than the record that came out last.
    fn pass_over(&mut self) -> Result<()> {
        while let (Some(head), Some(last)) = (self.heads.first(), &self.last)
            && head.reader.record().key == last.as_slice()
        {
            self.advance()?;
        }
        Ok(())
    }

    /// The first file goes on to its next record.
    fn advance(&mut self) -> Result<()> {
        let Some(head) = self.heads.first_mut() else {
            return Ok(());
        };
        if head.reader.advance()? {
            head.prefix = head.reader.record().prefix();
        } else {
            self.heads.swap_remove(0);
        }
        self.sift(0);
        Ok(())
    }

    /// Whether one comes before another: a smaller key, or the same and newer.
    fn before(&self, a: usize, b: usize) -> bool {
        let (a, b) = (&self.heads[a], &self.heads[b]);
        let keys = || a.reader.record().key.cmp(b.reader.record().key);
        let order = a.prefix.cmp(&b.prefix).then_with(keys);
        order.then(b.age.cmp(&a.age)) == Ordering::Less
    }

    fn sift(&mut self, mut i: usize) {
        loop {
            let mut least = i;
            for child in [2 * i + 1, 2 * i + 2] {
                if child < self.heads.len() && self.before(child, least) {
                    least = child;
                }
            }
            if least == i {
                return;
            }
            self.heads.swap(i, least);
            i = least;
        }
    }
}
