//! The structures that hold keys and collections: of each numbered database a hash table of heads, and one tree
//! of elements for all of them.
//!
//! Invariants: a number of a collection is given out once, over restarts too: the bound is written before numbers
//! below it are used. What the record of a database names is its heads; heads that no record names are left
//! over from a flush, and go at the next opening. Handles are changed only by who is alone ([`Locks`]).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use terrace::{Database, Error, Hash, Result, Tree, encode};

use super::codec::Secret;
use super::locks::Locks;

/// Numbered databases.
pub const DATABASES: usize = 16;
/// Numbers that are reserved at a time: few writes, and few are lost by a crash.
const NUMBERS: u64 = 4096;
/// Heads up to which `DBSIZE` counts them one by one.
const COUNTED: u64 = 2_000;
/// What the records of libraries of functions begin with, and where they end.
#[cfg(feature = "lua")]
const LIBRARY: &str = "library.";
#[cfg(feature = "lua")]
const LIBRARIES_END: &str = "library/";
const META: &str = "serve.meta";
const HEADS: &str = "serve.heads.";
const ELEMENTS: &str = "serve.elements.";

/// The heads of a numbered database, once something was written there.
#[derive(Clone, Debug)]
pub struct Heads {
    /// The number of the structure, by which owners and due keys name it.
    pub id: u32,
    /// The structure.
    pub table: Hash,
}

/// All handles.
pub struct Keyspace {
    heads: [OnceLock<Heads>; DATABASES],
    /// The elements of all collections, and what is to be done.
    pub elements: Tree,
}

impl Keyspace {
    /// The heads of a database, if there are any.
    pub fn heads(&self, db: usize) -> Option<&Heads> {
        self.heads[db].get()
    }

    /// The heads with a number, and of which database they are.
    pub fn heads_of(&self, id: u32) -> Option<(usize, &Heads)> {
        let mut all = self.heads.iter().enumerate();
        all.find_map(|(db, heads)| heads.get().filter(|h| h.id == id).map(|h| (db, h)))
    }
}

/// The keys of a database.
pub struct Store {
    /// The database.
    pub db: Database,
    meta: Tree,
    /// By which fields are hashed.
    pub secret: Secret,
    keyspace: RwLock<Arc<Keyspace>>,
    /// Raised whenever the handles change.
    generation: AtomicU64,
    numbers: Mutex<(u64, u64)>,
    /// Whether a number was ever given out: without, no key can be a collection.
    collections: AtomicBool,
    /// Strings that were written over keys that no command looked at, since the last round.
    pub blind: AtomicU64,
    /// Who may do what to which keys.
    pub locks: Locks,
    /// Keys of each database, about, as they were counted last.
    counted: [AtomicU64; DATABASES],
    /// The memory of the database.
    pub memory: u64,
    /// Longest key of a record.
    pub longest_key: usize,
    /// Whether the limit of the data is reached.
    pub full: AtomicBool,
    clock: Box<dyn Fn() -> u64 + Send + Sync>,
}

fn id_key(db: usize) -> Vec<u8> {
    let mut key = b"heads".to_vec();
    key.push(db as u8);
    key
}

fn number(value: Option<Vec<u8>>, what: &str) -> Result<Option<u64>> {
    value
        .map(|value| {
            encode::to_u64(&value).ok_or_else(|| Error::Corrupt {
                file: META.to_owned(),
                offset: None,
                what: format!("the record \"{what}\" has {} bytes, not 8", value.len()),
                way_out: "restore a backup, or make the record anew",
            })
        })
        .transpose()
}

impl Store {
    /// The keys of `db`, which the clock tells the milliseconds since 1970.
    ///
    /// # Errors
    /// Those of reading and writing.
    pub fn open(db: Database, clock: Box<dyn Fn() -> u64 + Send + Sync>) -> Result<Store> {
        let meta = db.tree(META)?;
        let secret = match meta.get("secret")?.map(Secret::try_from) {
            Some(Ok(secret)) => secret,
            _ => {
                let mut secret = [0; 16];
                for half in secret.chunks_mut(8) {
                    half.copy_from_slice(&crate::random::random().to_be_bytes());
                }
                meta.put("secret", secret)?;
                secret
            }
        };
        let bound = number(meta.get("numbers")?, "numbers")?.unwrap_or(1);
        let stats = db.stats();
        let longest_key = terrace::max_key_bytes(stats.pages.page_bytes as usize);
        let elements = match number(meta.get("elements")?, "elements")? {
            Some(id) => db.tree(&format!("{ELEMENTS}{id}"))?,
            None => Store::new_elements(&db, &meta)?,
        };
        let keyspace = Keyspace {
            heads: std::array::from_fn(|_| OnceLock::new()),
            elements,
        };
        for at in 0..DATABASES {
            if let Some(id) = number(meta.get(id_key(at))?, "heads")? {
                let table = db.hash(&format!("{HEADS}{id}"))?;
                let id = id as u32;
                let _ = keyspace.heads[at].set(Heads { id, table });
            }
        }
        let store = Store {
            db,
            meta,
            secret,
            keyspace: RwLock::new(Arc::new(keyspace)),
            generation: AtomicU64::new(0),
            numbers: Mutex::new((bound, bound)),
            collections: AtomicBool::new(bound > 1),
            // It is not known what happened before.
            blind: AtomicU64::new(u64::from(bound > 1)),
            locks: Locks::new(),
            counted: Default::default(),
            memory: stats.memory.limit,
            longest_key,
            full: AtomicBool::new(false),
            clock,
        };
        store.drop_left_over()?;
        Ok(store)
    }

    fn new_id(meta: &Tree) -> Result<u64> {
        let id = number(meta.get("next")?, "next")?.unwrap_or(0);
        meta.put("next", encode::u64(id + 1))?;
        Ok(id)
    }

    fn new_elements(db: &Database, meta: &Tree) -> Result<Tree> {
        let id = Store::new_id(meta)?;
        let tree = db.tree(&format!("{ELEMENTS}{id}"))?;
        meta.put("elements", encode::u64(id))?;
        Ok(tree)
    }

    /// Drops what no record names.
    fn drop_left_over(&self) -> Result<()> {
        let keyspace = self.keyspace();
        let mut named: Vec<String> = (0..DATABASES)
            .filter_map(|db| keyspace.heads(db).map(|h| h.table.name()))
            .collect();
        named.push(keyspace.elements.name());
        for structure in self.db.structures() {
            let ours = structure.name.starts_with(HEADS) || structure.name.starts_with(ELEMENTS);
            if ours && !named.contains(&structure.name) {
                self.db.drop_structure(&structure.name)?;
            }
        }
        Ok(())
    }

    /// Milliseconds since 1970.
    pub fn now(&self) -> u64 {
        (self.clock)()
    }

    /// Which handles they are; it changes only while a command is alone.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// The handles as they are now.
    pub fn keyspace(&self) -> Arc<Keyspace> {
        let keyspace = self.keyspace.read();
        keyspace.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether there may be any collection.
    pub fn has_collections(&self) -> bool {
        self.collections.load(Ordering::Relaxed)
    }

    /// The heads of a database, made if there are none.
    ///
    /// # Errors
    /// Those of a write.
    pub fn make_heads<'k>(&self, keyspace: &'k Keyspace, db: usize) -> Result<&'k Heads> {
        if let Some(heads) = keyspace.heads(db) {
            return Ok(heads);
        }
        // One of those who come together makes them.
        let _making = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(heads) = keyspace.heads(db) {
            return Ok(heads);
        }
        let id = Store::new_id(&self.meta)?;
        let table = self.db.hash(&format!("{HEADS}{id}"))?;
        self.meta.put(id_key(db), encode::u64(id))?;
        let id = id as u32;
        Ok(keyspace.heads[db].get_or_init(|| Heads { id, table }))
    }

    /// A number that no collection has had.
    ///
    /// # Errors
    /// Those of a write.
    pub fn new_number(&self) -> Result<u64> {
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        let (next, bound) = *numbers;
        if next == bound {
            self.meta.put("numbers", encode::u64(bound + NUMBERS))?;
            self.collections.store(true, Ordering::Relaxed);
            numbers.1 = bound + NUMBERS;
        }
        if crate::planted::planted(crate::planted::Fault::ElementsOfOldKey) {
            return Ok(next);
        }
        numbers.0 = next + 1;
        Ok(next)
    }

    /// The texts of all libraries of functions.
    ///
    /// # Errors
    /// Those of reading.
    #[cfg(feature = "lua")]
    pub fn libraries(&self) -> Result<Vec<Vec<u8>>> {
        let all = self.meta.range(LIBRARY..LIBRARIES_END)?;
        all.map(|record| record.map(|(_, text)| text)).collect()
    }

    /// Writes and removes libraries of functions, all or none of them.
    ///
    /// # Errors
    /// Those of a write.
    #[cfg(feature = "lua")]
    pub fn write_libraries(&self, changes: &[(&str, Option<&[u8]>)]) -> Result<()> {
        let mut batch = self.db.batch();
        for (name, text) in changes {
            let key = format!("{LIBRARY}{name}");
            match text {
                Some(text) => batch.put(&self.meta, key, text),
                None => batch.delete(&self.meta, key),
            };
        }
        self.db.write(batch, terrace::Durability::Buffered)
    }

    /// Empties a database. Only for who is alone.
    ///
    /// # Errors
    /// Those of a write.
    pub fn flush(&self, db: usize) -> Result<()> {
        let old = self.keyspace();
        let Some(heads) = old.heads(db) else {
            return Ok(());
        };
        self.meta.delete(id_key(db))?;
        self.replace(old.elements.clone(), |at| {
            if at == db {
                None
            } else {
                old.heads(at).cloned()
            }
        });
        // Its elements are found by the round.
        self.blind.fetch_add(1, Ordering::Relaxed);
        self.db.drop_structure(&heads.table.name())
    }

    /// Empties all databases. Only for who is alone.
    ///
    /// # Errors
    /// Those of a write.
    pub fn flush_all(&self) -> Result<()> {
        let old = self.keyspace();
        for db in 0..DATABASES {
            self.flush(db)?;
        }
        let elements = Store::new_elements(&self.db, &self.meta)?;
        self.replace(elements, |_| None);
        self.db.drop_structure(&old.elements.name())
    }

    /// Exchanges two databases. Only for who is alone.
    ///
    /// # Errors
    /// Those of a write.
    pub fn swap(&self, a: usize, b: usize) -> Result<()> {
        let old = self.keyspace();
        let mut batch = self.db.batch();
        for (to, from) in [(a, b), (b, a)] {
            match old.heads(from) {
                Some(heads) => batch.put(&self.meta, id_key(to), encode::u64(heads.id.into())),
                None => batch.delete(&self.meta, id_key(to)),
            };
        }
        self.db.write(batch, terrace::Durability::Buffered)?;
        self.replace(old.elements.clone(), |at| {
            let from = match at {
                _ if at == a => b,
                _ if at == b => a,
                _ => at,
            };
            old.heads(from).cloned()
        });
        Ok(())
    }

    fn replace(&self, elements: Tree, heads: impl Fn(usize) -> Option<Heads>) {
        let new = Keyspace {
            heads: std::array::from_fn(|at| heads(at).map_or_else(OnceLock::new, OnceLock::from)),
            elements,
        };
        let mut keyspace = self
            .keyspace
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *keyspace = Arc::new(new);
        self.generation.fetch_add(1, Ordering::SeqCst);
    }

    /// Counts the keys of all databases, about.
    ///
    /// # Errors
    /// Those of reading.
    pub fn count_keys(&self) -> Result<()> {
        let keyspace = self.keyspace();
        for (db, counted) in self.counted.iter().enumerate() {
            // Not one by one, for that reads their values too.
            let keys = match keyspace.heads(db) {
                Some(heads) => heads.table.estimated_len()?,
                None => 0,
            };
            counted.store(keys, Ordering::Relaxed);
        }
        Ok(())
    }

    /// How many keys a database had when they were counted last, if any.
    pub fn keys_at_hand(&self, db: usize) -> Option<u64> {
        let keys = self.counted[db].load(Ordering::Relaxed);
        (keys > 0).then_some(keys)
    }

    /// About how many keys a database has; few are counted one by one, without those that have expired.
    ///
    /// # Errors
    /// Those of reading.
    pub fn estimated_keys(&self, db: usize) -> Result<u64> {
        let keyspace = self.keyspace();
        let Some(heads) = keyspace.heads(db) else {
            return Ok(0);
        };
        let estimate = heads.table.estimated_len()?;
        if estimate > COUNTED {
            return Ok(estimate);
        }
        let now = self.now();
        let mut count = 0;
        for record in heads.table.iter()? {
            let (_, value) = record?;
            let head = super::codec::Head::decode(&value);
            let lives = head.is_some_and(|(head, _)| head.expires.is_none_or(|at| at > now));
            count += u64::from(lives);
        }
        Ok(count)
    }
}
