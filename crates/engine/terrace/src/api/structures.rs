//! Making structures, and finding them by their names.

use terrace_base::{Error, Result};

use crate::handle::database::Database;
use crate::handle::map::Map;
use crate::kinds::Kind;
use crate::kinds::spec::{HashOptions, LsmOptions, MapOptions, TreeOptions};
use crate::structures::hash::Hash;
use crate::structures::table::Table;
use crate::structures::tree::Tree;
use crate::table::options::TableOptions;

impl Database {
    /// A structure that is there, of whatever kind.
    ///
    /// # Errors
    /// [`Error::NoSuchStructure`].
    pub fn map(&self, name: &str) -> Result<Map> {
        Map::found(self, name, None, MapOptions::new())
    }

    fn found_or_made(&self, name: &str, kind: Kind, options: MapOptions) -> Result<Map> {
        let open = self.core().find(name)?;
        if open.is_none() {
            match self.create_map(name, kind, options) {
                // Another thread was faster.
                Err(Error::StructureExists { .. }) => {}
                made => return made,
            }
        }
        Map::found(self, name, Some(kind), options)
    }

    /// A new structure of some kind.
    ///
    /// # Errors
    /// [`Error::StructureExists`], names that cannot be one, and those of a write.
    pub fn create_map(&self, name: &str, kind: Kind, options: MapOptions) -> Result<Map> {
        let spec = options.spec(kind);
        let open = self.core().create_structure(name, spec)?;
        Ok(Map::new(self.clone(), open))
    }

    /// The tree of this name, made with two tiers if there is none.
    ///
    /// # Errors
    /// Names that cannot be one, and those of a write; [`crate::Error::Invalid`] when the structure of this
    /// name is of another kind.
    pub fn tree(&self, name: &str) -> Result<Tree> {
        self.tree_with(name, TreeOptions::new())
    }

    /// The tree of this name, made if there is none.
    ///
    /// # Errors
    /// As [`Database::tree`]; [`crate::Error::Invalid`] when there is one that is not what the options say.
    pub fn tree_with(&self, name: &str, options: TreeOptions) -> Result<Tree> {
        self.found_or_made(name, Kind::Tree, options).map(Tree::new)
    }

    /// A new tree.
    ///
    /// # Errors
    /// [`crate::Error::StructureExists`]; otherwise as [`Database::tree`].
    pub fn create_tree(&self, name: &str, options: TreeOptions) -> Result<Tree> {
        self.create_map(name, Kind::Tree, options).map(Tree::new)
    }

    /// A tree that is there.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchStructure`]; [`crate::Error::Invalid`] when it is not what the options say.
    pub fn open_tree(&self, name: &str, options: TreeOptions) -> Result<Tree> {
        Map::found(self, name, Some(Kind::Tree), options).map(Tree::new)
    }

    /// The LSM-tree of this name, made with two tiers if there is none. It does what a tree does, so its
    /// handle is a [`Tree`]. What is written is gathered, and merged into what is there in steps, so that much
    /// less is written to the disk than by a tree that is much larger than the memory; scans read a little
    /// more while much is written. From 40 % of the data in memory on a tree does as well.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = terrace::Database::open(dir.path(), terrace::Options::new().memory(16 << 20))?;
    /// let events = db.lsm("events")?;
    /// events.put("2026-03-01 12:00", "began")?;
    /// events.put("2026-03-01 12:05", "ended")?;
    /// assert_eq!(events.prefix("2026-03-01")?.count(), 2);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    ///
    /// # Errors
    /// Names that cannot be one, and those of a write; [`crate::Error::Invalid`] when the structure of this
    /// name is of another kind.
    pub fn lsm(&self, name: &str) -> Result<Tree> {
        self.lsm_with(name, LsmOptions::new())
    }

    /// The LSM-tree of this name, made if there is none.
    ///
    /// # Errors
    /// As [`Database::lsm`]; [`crate::Error::Invalid`] when there is one that is not what the options say.
    pub fn lsm_with(&self, name: &str, options: LsmOptions) -> Result<Tree> {
        self.found_or_made(name, Kind::Lsm, options).map(Tree::new)
    }

    /// A new LSM-tree.
    ///
    /// # Errors
    /// [`crate::Error::StructureExists`]; otherwise as [`Database::lsm`].
    pub fn create_lsm(&self, name: &str, options: LsmOptions) -> Result<Tree> {
        self.create_map(name, Kind::Lsm, options).map(Tree::new)
    }

    /// An LSM-tree that is there.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchStructure`]; [`crate::Error::Invalid`] when it is not what the options say.
    pub fn open_lsm(&self, name: &str, options: LsmOptions) -> Result<Tree> {
        Map::found(self, name, Some(Kind::Lsm), options).map(Tree::new)
    }

    /// The hash table of this name, made with two tiers if there is none.
    ///
    /// # Errors
    /// Names that cannot be one, and those of a write; [`crate::Error::Invalid`] when the structure of this
    /// name is of another kind.
    pub fn hash(&self, name: &str) -> Result<Hash> {
        self.hash_with(name, HashOptions::new())
    }

    /// The hash table of this name, made if there is none.
    ///
    /// # Errors
    /// As [`Database::hash`]; [`crate::Error::Invalid`] when there is one that is not what the options say.
    pub fn hash_with(&self, name: &str, options: HashOptions) -> Result<Hash> {
        self.found_or_made(name, Kind::Hash, options).map(Hash::new)
    }

    /// A new hash table.
    ///
    /// # Errors
    /// [`crate::Error::StructureExists`]; otherwise as [`Database::hash`].
    pub fn create_hash(&self, name: &str, options: HashOptions) -> Result<Hash> {
        self.create_map(name, Kind::Hash, options).map(Hash::new)
    }

    /// A hash table that is there.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchStructure`]; [`crate::Error::Invalid`] when it is not what the options say.
    pub fn open_hash(&self, name: &str, options: HashOptions) -> Result<Hash> {
        Map::found(self, name, Some(Kind::Hash), options).map(Hash::new)
    }

    /// The table of this name, made with two tiers and without indexes if there is none.
    ///
    /// # Errors
    /// Names that cannot be one, and those of a write; [`Error::Invalid`] when the structure of this
    /// name is of another kind, or a table with an index whose function only the program knows.
    pub fn table(&self, name: &str) -> Result<Table> {
        self.table_with(name, TableOptions::new())
    }

    /// The table of this name, made with its indexes if there is none.
    ///
    /// # Errors
    /// As [`Database::table`]; [`Error::Invalid`] when there is one that is not what the options say,
    /// or has fewer, more or other indexes.
    pub fn table_with(&self, name: &str, options: TableOptions) -> Result<Table> {
        if self.core().find(name)?.is_none() {
            match self.create_table(name, options.clone()) {
                // Another thread was faster.
                Err(Error::StructureExists { .. }) => {}
                made => return made,
            }
        }
        self.open_table(name, options)
    }

    /// A new table with its indexes.
    ///
    /// # Errors
    /// [`Error::StructureExists`]; otherwise as [`Database::table`].
    pub fn create_table(&self, name: &str, options: TableOptions) -> Result<Table> {
        let open = self.core().create_table(name, &options)?;
        Ok(Table::new(Map::new(self.clone(), open)))
    }

    /// A table that is there.
    ///
    /// # Errors
    /// [`Error::NoSuchStructure`]; [`Error::Invalid`] when it is not what the options say.
    pub fn open_table(&self, name: &str, options: TableOptions) -> Result<Table> {
        let map = Map::found(self, name, Some(Kind::Table), options.map)?;
        self.core().expect_indexes(&map.open, &options)?;
        Ok(Table::new(map))
    }
}
