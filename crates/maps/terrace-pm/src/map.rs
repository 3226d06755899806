//! What users hold: a durable ordered map over a file.

use std::borrow::Borrow;
use std::fmt;
use std::io::Read;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use terrace_base::sync::RwLock;
use terrace_base::{Durability, Error, Result};

use crate::key::{Key, Own, Value, ValueOut, code_name, is_bytes};
use crate::log::GROUP;
use crate::options::Options;
use crate::pm::{Domain, Pm, boot_id, open_device};
use crate::recover::{self, Opening, Recovered};
use crate::stats::Stats;
use crate::superblock::{SUPERBLOCK_BYTES, Superblock};
use crate::tree::{Change, Cursor, Group, Settings, Tree, Wanted};
use crate::verify::Report;

struct Inner<K: Key + ?Sized> {
    tree: Arc<Tree<K::Own>>,
    /// None once it is closed. Writers hold it shared, so that nothing is written behind the seal.
    superblock: RwLock<Option<Superblock>>,
    recovered: Recovered,
}

impl<K: Key + ?Sized> Inner<K> {
    fn close(&self) -> Result<()> {
        self.tree.check_process()?;
        let mut superblock = self.superblock.write();
        let Some(mut last) = superblock.take() else {
            return Ok(());
        };
        self.tree.check_poison()?;
        self.tree.seal(&mut last)
    }
}

impl<K: Key + ?Sized> Drop for Inner<K> {
    fn drop(&mut self) {
        // Whoever wants to know closes it; what was acknowledged is in the log either way. A child process
        // leaves it as it is.
        let _ = self.close();
    }
}

fn check_open(is_open: bool) -> Result<()> {
    if is_open {
        return Ok(());
    }
    Err(Error::invalid(
        "the map is closed; open it again to write to it",
    ))
}

/// A durable ordered map in persistent memory, or in any file.
///
/// On persistent memory (DAX) a write is durable when it returns, for about one fence. On any other file,
/// tmpfs included, it survives the death of the process at the speed of memory, and after a power cut is
/// refused rather than believed ([`Error::PowerLost`]); see [`Options::durability`].
///
/// A map is cheap to clone, and may be used by any number of threads. The file is open to one process at
/// a time; in a child that was forked while it was open, calls are errors.
///
/// ```
/// use terrace_pm::{Options, PmMap};
///
/// # fn main() -> terrace_pm::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("visits.pm");
/// let visits = PmMap::<u64, u64>::open(&path, Options::new().memory(16 << 20))?;
/// visits.put(7, 1)?;
/// visits.put(3, 5)?;
/// assert_eq!(visits.get(7)?, Some(1));
/// let keys: Vec<u64> = visits.iter().map(|pair| Ok(pair?.0)).collect::<terrace_pm::Result<_>>()?;
/// assert_eq!(keys, [3, 7]);
/// visits.close()
/// # }
/// ```
pub struct PmMap<K: Key + ?Sized, V: Value + ?Sized> {
    inner: Arc<Inner<K>>,
    value: PhantomData<fn() -> Box<V>>,
}

impl<K: Key + ?Sized, V: Value + ?Sized> Clone for PmMap<K, V> {
    fn clone(&self) -> Self {
        PmMap {
            inner: self.inner.clone(),
            value: PhantomData,
        }
    }
}

impl<K: Key + ?Sized, V: Value + ?Sized> fmt::Debug for PmMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PmMap")
            .field("file", &self.inner.tree.arena.pm().name())
            .finish_non_exhaustive()
    }
}

impl<K: Key + ?Sized, V: Value + ?Sized> PmMap<K, V> {
    /// Opens the map in this file, or makes one.
    ///
    /// Takes time linear in the leaves and in what was buffered: some hundred milliseconds for ten million
    /// keys. After a crash it is the same.
    ///
    /// # Errors
    ///
    /// [`Error::Locked`] if it is open elsewhere, [`Error::PowerLost`] if it was open without protection
    /// when the machine went down, [`Error::Corrupt`] if the file is damaged or another kind of file,
    /// [`Error::MemoryTooSmall`] if its index does not fit the memory given, [`Error::DiskFull`] if the file
    /// has holes that its disk has no room for, [`Error::Invalid`] if its file system writes pages to new
    /// blocks (Btrfs, ZFS).
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        options.check()?;
        let (device, _) = open_device(
            path.as_ref(),
            options.capacity,
            options.durability,
            options.create,
        )?;
        let identity = device.identity();
        Self::open_at(Arc::new(device), identity, options)
    }

    /// Opens the map in any memory.
    pub fn open_on(pm: Arc<dyn Pm>, options: Options) -> Result<Self> {
        options.check()?;
        Self::open_at(pm, (0, 0), options)
    }

    fn open_at(pm: Arc<dyn Pm>, identity: (u64, u64), options: Options) -> Result<Self> {
        let value_bytes = is_bytes(V::CODE);
        let settings = Settings {
            buffers: options.buffers,
            hotness: options.hotness,
            drained: options.split,
            node_leaves: options.node_leaves,
            blobs: value_bytes || is_bytes(K::CODE),
            value_bytes,
            memory: options.memory,
            is_sync: pm.domain() == Domain::Power,
        };
        let opening = Opening {
            kinds: K::CODE | V::CODE << 8,
            shape: options.shape,
            capacity: options.capacity,
            boot: options.boot.unwrap_or_else(boot_id),
            identity,
            discard: options.discard,
            create: options.create,
            threads: options.threads,
            map_id: options.map_id,
        };
        let (tree, superblock, recovered) = recover::open::<K::Own>(pm, &opening, settings)?;
        Ok(PmMap {
            inner: Arc::new(Inner {
                tree: Arc::new(tree),
                superblock: RwLock::new(Some(superblock)),
                recovered,
            }),
            value: PhantomData,
        })
    }

    fn write(
        &self,
        key: &K,
        change: &Change<'_>,
        mut wanted: Wanted<'_>,
    ) -> Result<(Option<V::Owned>, bool)> {
        self.inner.tree.check_process()?;
        let open = self.inner.superblock.read();
        check_open(open.is_some())?;
        let (old, made) = self
            .inner
            .tree
            .write(&key.to_own(), change, &mut wanted, None)?;
        Ok((old.and_then(V::from_out), made))
    }

    /// Gives a key a value, whatever it had before. Does not look.
    pub fn put(&self, key: impl Borrow<K>, value: impl Borrow<V>) -> Result<()> {
        let change = Change::Put(value.borrow().to_in());
        self.write(key.borrow(), &change, Wanted::Any).map(|_| ())
    }

    /// Takes a key out, if it is there. Does not look.
    pub fn delete(&self, key: impl Borrow<K>) -> Result<()> {
        self.write(key.borrow(), &Change::Delete, Wanted::Any)
            .map(|_| ())
    }

    /// Gives a key a value if it has none; whether it did.
    pub fn insert(&self, key: impl Borrow<K>, value: impl Borrow<V>) -> Result<bool> {
        let change = Change::Put(value.borrow().to_in());
        Ok(self.write(key.borrow(), &change, Wanted::Absent)?.1)
    }

    /// Takes a key out; whether it was there.
    pub fn remove(&self, key: impl Borrow<K>) -> Result<bool> {
        Ok(self
            .write(key.borrow(), &Change::Delete, Wanted::Present)?
            .1)
    }

    /// Gives a key the value that the function makes of the old one, or takes it out where it makes none.
    /// No other thread changes the key in between. The function must not use the map.
    pub fn update<N: Borrow<V>>(
        &self,
        key: impl Borrow<K>,
        mut function: impl FnMut(Option<V::Owned>) -> Option<N>,
    ) -> Result<()> {
        let mut decide = |old: Option<crate::key::ValueOut>| {
            let new = function(old.and_then(V::from_out))?;
            Some(match new.borrow().to_in() {
                crate::key::ValueIn::Int(int) => int.to_le_bytes().to_vec(),
                crate::key::ValueIn::Bytes(bytes) => bytes.to_vec(),
            })
        };
        self.write(key.borrow(), &Change::Delete, Wanted::Decide(&mut decide))
            .map(|_| ())
    }

    /// Puts many pairs; groups of up to 32 of them share a fence, and all are as durable as single ones
    /// when it returns. It is no transaction: a crash may leave some of them, each whole, and other threads
    /// may see a value before it is durable.
    pub fn put_all<P, Q>(&self, pairs: impl IntoIterator<Item = (P, Q)>) -> Result<()>
    where
        P: Borrow<K>,
        Q: Borrow<V>,
    {
        let tree = &self.inner.tree;
        tree.check_process()?;
        let (mut waiting, mut group) = (0, Group::default());
        for (key, value) in pairs {
            let key = key.borrow().to_own();
            let change = Change::Put(value.borrow().to_in());
            // For each pair anew: the iterator may wait for others.
            let open = self.inner.superblock.read();
            check_open(open.is_some())?;
            let wrote = tree.write(&key, &change, &mut Wanted::Any, Some(&mut group));
            waiting += 1;
            if wrote.is_err() || waiting == GROUP {
                tree.commit_together(&mut group)?;
                waiting = 0;
            }
            wrote?;
        }
        let _open = self.inner.superblock.read();
        tree.commit_together(&mut group)
    }

    /// The value of a key.
    pub fn get(&self, key: impl Borrow<K>) -> Result<Option<V::Owned>> {
        self.inner.tree.check_process()?;
        let Some(found) = self.inner.tree.get(&key.borrow().to_own())? else {
            return Ok(None);
        };
        match V::from_out(found) {
            Some(value) => Ok(Some(value)),
            None => Err(not_typed(self.inner.tree.arena.pm().name())),
        }
    }

    /// Whether a key is there.
    pub fn contains_key(&self, key: impl Borrow<K>) -> Result<bool> {
        self.inner.tree.check_process()?;
        self.inner.tree.contains(&key.borrow().to_own())
    }

    /// The pairs with keys in this range, in order, from both ends. Windows of it are what was there at one
    /// instant each; as a whole it is no snapshot.
    pub fn range<B: Borrow<K>>(&self, range: impl RangeBounds<B>) -> Result<Range<K, V>> {
        let own = |bound: Bound<&B>| match bound {
            Bound::Included(key) => Bound::Included(key.borrow().to_own()),
            Bound::Excluded(key) => Bound::Excluded(key.borrow().to_own()),
            Bound::Unbounded => Bound::Unbounded,
        };
        let bounds = (own(range.start_bound()), own(range.end_bound()));
        Ok(Range {
            cursor: Cursor::new(self.inner.tree.clone(), bounds),
            value: PhantomData,
        })
    }

    /// All pairs, in order, from both ends; as [`PmMap::range`].
    pub fn iter(&self) -> Range<K, V> {
        Range {
            cursor: Cursor::new(
                self.inner.tree.clone(),
                (Bound::Unbounded, Bound::Unbounded),
            ),
            value: PhantomData,
        }
    }

    /// The pair with the least key.
    pub fn first(&self) -> Result<Option<(K::Owned, V::Owned)>> {
        self.iter().next().transpose()
    }

    /// The pair with the greatest key.
    pub fn last(&self) -> Result<Option<(K::Owned, V::Owned)>> {
        self.iter().next_back().transpose()
    }

    /// Writes everything to the device: after it, a map that is [`Durability::Buffered`] has on the disk
    /// what was written before the call. That does not make it believed after a power cut, as later writes
    /// may have come to the disk in part; [`PmMap::close`] does.
    pub fn sync(&self) -> Result<()> {
        let tree = &self.inner.tree;
        tree.check_process()?;
        tree.check_poison()?;
        tree.guard(tree.log.commit_many(0..tree.log.count()))?;
        tree.guard(tree.arena.pm().sync())
    }

    /// Closes the map: what it holds survives a power cut from then on, and opening believes it. Other
    /// handles can read on, and write no more. Does nothing if it is closed. The last handle that is dropped
    /// closes it, too.
    pub fn close(&self) -> Result<()> {
        self.inner.close()
    }

    /// What a write of it survives.
    pub fn durability(&self) -> Durability {
        match self.inner.tree.arena.pm().domain() {
            Domain::Power => Durability::Sync,
            Domain::Process => Durability::Buffered,
        }
    }

    /// What it has done and what it has.
    pub fn stats(&self) -> Stats {
        Stats::of(&self.inner.tree, self.inner.recovered)
    }

    /// Reads everything and checks every invariant: leaves against their fences, fingerprints against their
    /// keys, blobs against their checks, buffers against the log. Takes node after node, and holds each of
    /// them while it looks.
    pub fn verify(&self) -> Result<Report> {
        self.inner.tree.check_process()?;
        self.inner.tree.verify()
    }

    /// Writes since it was opened.
    #[doc(hidden)]
    pub fn writes(&self) -> u64 {
        self.inner.tree.counters.writes.load(Relaxed)
    }

    /// Ends as a crash of the process would: nothing is sealed.
    #[doc(hidden)]
    pub fn crash(self) {
        self.inner.superblock.write().take();
    }
}

/// What the keys and the values of the map in this file are, in words, without opening it.
///
/// # Errors
///
/// [`Error::Corrupt`] if it is no map, or damaged.
pub fn kinds(path: impl AsRef<Path>) -> Result<(String, String)> {
    let name = path.as_ref().display().to_string();
    let failed = |source| Error::io("reading", name.clone(), source);
    let mut file = std::fs::File::open(path.as_ref()).map_err(failed)?;
    let known = if file
        .metadata()
        .map_err(failed)?
        .file_type()
        .is_char_device()
    {
        // A device of persistent memory is not read, only mapped.
        let (device, _) = open_device(path.as_ref(), 0, None, false)?;
        Superblock::read(&device)?
    } else {
        let mut bytes = Vec::new();
        std::io::Read::take(&mut file, SUPERBLOCK_BYTES)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
        Superblock::of_bytes(&bytes, &name)?
    };
    let known = known
        .ok_or_else(|| Error::corrupt(name, 0, "it holds zeros where a map has its superblock"))?;
    let (key, value) = (known.kinds & 0xff, known.kinds >> 8 & 0xff);
    Ok((code_name(key).into_owned(), code_name(value).into_owned()))
}

fn not_typed(file: &str) -> Error {
    let what = "a pair is not of the types that the map has";
    Error::corrupt(file, None, what)
}

/// Pairs of a range, in order. Behind an error it goes on with the next leaf.
pub struct Range<K: Key + ?Sized, V: Value + ?Sized> {
    cursor: Cursor<K::Own>,
    value: PhantomData<fn() -> Box<V>>,
}

impl<K: Key + ?Sized, V: Value + ?Sized> Range<K, V> {
    fn typed(
        &self,
        pair: Option<(K::Own, crate::key::ValueOut)>,
    ) -> Option<Result<(K::Owned, V::Owned)>> {
        let (key, value) = pair?;
        let typed = K::from_own(&key).zip(V::from_out(value));
        Some(typed.ok_or_else(|| not_typed(self.cursor.name())))
    }

    /// Once a leaf, and where pairs are more than two numbers.
    #[inline(never)]
    fn next_of_many(&mut self) -> Option<Result<(K::Owned, V::Owned)>> {
        let next = self.cursor.next_front();
        next.map_or_else(|e| Some(Err(e)), |pair| self.typed(pair))
    }
}

impl<K: Key + ?Sized, V: Value + ?Sized> Iterator for Range<K, V> {
    type Item = Result<(K::Owned, V::Owned)>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if let Some((word, value)) = self.cursor.next_plain()
            && let Some(key) = K::from_own(&K::Own::of_word(word))
            && let Some(value) = V::from_out(ValueOut::Int(value))
        {
            return Some(Ok((key, value)));
        }
        self.next_of_many()
    }
}

impl<K: Key + ?Sized, V: Value + ?Sized> DoubleEndedIterator for Range<K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let next = self.cursor.next_back();
        next.map_or_else(|e| Some(Err(e)), |pair| self.typed(pair))
    }
}
