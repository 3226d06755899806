//! Creating, finding, dropping and renaming structures, with the log.

use std::sync::Arc;

use terrace_base::{Error, Result};
use terrace_wal::{Appended, Reservation};

use crate::catalog::info::StructureInfo;
use crate::catalog::opened::{NewStructure, Open};
use crate::core::Core;
use crate::effects::{encode_compress, encode_create, encode_drop, encode_finish, encode_rename};
use crate::kinds::spec::{Compression, Spec};
use crate::planted::{Fault, planted};

/// A change of the catalog that was made, and has to become durable ([`Core::finish`]).
#[must_use]
pub struct Logged<T> {
    pub made: T,
    appended: Option<Appended>,
}

impl Core {
    /// The structure of this name.
    pub fn find(&self, name: &str) -> Result<Option<Arc<Open>>> {
        let _pass = self.passes().enter()?;
        Ok(self.registry().named(name))
    }

    fn found(&self, name: &str) -> Result<Arc<Open>> {
        self.registry()
            .named(name)
            .ok_or_else(|| Error::NoSuchStructure { name: name.into() })
    }

    /// What structures there are.
    pub fn structures(&self) -> Vec<StructureInfo> {
        if !self.passes().is_mine() {
            // Another thread may have had a lock when this process was forked.
            return Vec::new();
        }
        let all = self.registry().all();
        let mut infos: Vec<_> = all
            .iter()
            .filter(|open| open.is_named())
            .map(|o| StructureInfo::of(o))
            .collect();
        infos.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        infos
    }

    /// Runs one change of the catalog, given what appends its record.
    fn named_change<T>(
        &self,
        payload: &[u8],
        reservation: Result<Reservation<'_>>,
        change: impl FnOnce(&mut dyn FnMut()) -> Result<T>,
    ) -> Result<Logged<T>> {
        let (mut reservation, mut appended) = (self.heard(reservation)?, None);
        let done = change(&mut || appended = Some(self.log().append(&mut reservation, &[payload])));
        match done {
            Ok(made) => Ok(Logged { made, appended }),
            Err(e) if appended.is_some() => Err(self.kill(e)),
            Err(e) => Err(self.failed(e)),
        }
    }

    /// Waits until a change of the catalog is as durable as the options say.
    pub fn finish<T>(&self, change: Logged<T>) -> Result<T> {
        if let Some(appended) = change.appended {
            self.commit(appended, self.options().durability)?;
        }
        Ok(change.made)
    }

    /// Makes a structure.
    pub fn create_structure(&self, name: &str, spec: Spec) -> Result<Arc<Open>> {
        let new = NewStructure {
            spec: spec.check()?,
            name,
            index: None,
            unfinished: false,
        };
        let made = {
            let _naming = self.definitions().hold_names();
            self.log_create(&new)?
        };
        self.finish(made)
    }

    /// Makes a structure; the caller holds the names, and sees to it that it becomes durable.
    pub fn log_create(&self, new: &NewStructure<'_>) -> Result<Logged<Arc<Open>>> {
        let _pass = self.passes().enter()?;
        self.budget().check_structures(self.registry())?;
        let mut payload = Vec::new();
        let id = terrace_base::StructureId(self.registry().next_id());
        encode_create(id, new, &mut payload);
        let reservation = self.log().reserve(payload.len());
        let made = self.named_change(&payload, reservation, |log| {
            self.registry().create(id, new, log)
        })?;
        // Frames make room for what it takes. If they cannot, who needs one meets the error.
        let _ = self.store().make_room_for_extra();
        Ok(made)
    }

    /// Finishes what was begun; the caller holds the names.
    pub fn log_finish(&self, open: &Arc<Open>) -> Result<Logged<()>> {
        let _pass = self.enter(open)?;
        let mut payload = Vec::new();
        encode_finish(open.id(), &mut payload);
        let reservation = self.log().reserve(payload.len());
        self.named_change(&payload, reservation, |log| {
            self.registry().finish(open, log)
        })
    }

    /// Marks a structure as dropped; the caller holds the names, and takes it apart afterwards.
    pub fn log_drop(&self, open: &Open) -> Result<Logged<()>> {
        let _pass = self.enter(open)?;
        let mut payload = Vec::new();
        encode_drop(open.id(), &mut payload);
        let reservation = self.log().reserve_urgent(payload.len());
        self.named_change(&payload, reservation, |log| {
            let log: &mut dyn FnMut() = match planted(Fault::SilentDrop) {
                true => &mut || (),
                false => log,
            };
            self.registry().mark_dropped(open, log)
        })
    }

    /// Drops a structure.
    pub fn drop_structure(&self, name: &str) -> Result<()> {
        let (open, dropped) = {
            let _naming = self.definitions().hold_names();
            let open = self.find(name)?;
            let open = open.ok_or_else(|| Error::NoSuchStructure { name: name.into() })?;
            let dropped = self.log_drop(&open)?;
            (open, dropped)
        };
        let finished = self.finish(dropped);
        self.take_apart_with_indexes(&open);
        finished
    }

    /// Compresses pages of a structure otherwise from now on, if it is not so already.
    pub fn compress(&self, open: &Open, compression: Compression) -> Result<()> {
        let changed = {
            let _naming = self.definitions().hold_names();
            let _pass = self.enter(open)?;
            if open.compression() == compression {
                return Ok(());
            }
            let mut payload = Vec::new();
            encode_compress(open.id(), compression, &mut payload);
            let reservation = self.log().reserve(payload.len());
            self.named_change(&payload, reservation, |log| {
                self.registry().compress(open, compression, log)
            })?
        };
        self.finish(changed)
    }

    /// Gives a structure another name.
    pub fn rename_structure(&self, from: &str, to: &str) -> Result<()> {
        let renamed = {
            let _naming = self.definitions().hold_names();
            let _pass = self.passes().enter()?;
            let open = self.found(from)?;
            let mut payload = Vec::new();
            encode_rename(open.id(), to, &mut payload);
            let reservation = self.log().reserve(payload.len());
            self.named_change(&payload, reservation, |log| {
                self.registry().rename(&open, to, log)
            })?
        };
        self.finish(renamed)
    }
}
