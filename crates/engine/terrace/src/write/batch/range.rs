//! A range that goes with a batch, by pages: what the batch holds of it, and how the two are written as one.
//!
//! What the batch has changed in the range before it goes does not count, what it changes there afterwards does. In the
//! log the range has its place among the changes. In memory it goes first, and changes that it overrules are left out.
//! No other thread is at work meanwhile, as where a range goes by itself (`range_delete.rs`).
//!
//! Invariants: range and changes are in the same entry of the gate, and in one record of the log. What is written rests on
//! is looked at before the record has its place; then no thread is at work that could change it.

use std::sync::Arc;

use terrace_access::{Attempt, WriteGuard};
use terrace_base::StructureId;
use terrace_tier::WriteReservation;
use terrace_wal::{Appended, Reservation};

use super::bounds::Range;
use super::changes::Batch;
use super::standing::Standing;
use crate::catalog::entries::Entry;
use crate::catalog::opened::Open;
use crate::catalog::registry::RangeRemoved;
use crate::core::Core;
use crate::effects::encode_delete_range;
use crate::handle::database::Database;
use crate::planted::{Fault, planted};

/// From `low` to before `high`.
type Bounds<'k> = (&'k [u8], Option<&'k [u8]>);

/// What came of the range.
pub(super) struct Gone {
    pub removed: RangeRemoved,
    /// What is to be taken apart.
    pub part: Option<Entry>,
    pub appended: Option<Appended>,
}

impl Batch {
    /// All records of a range go, too. There is one range at most.
    pub(crate) fn delete_range(
        &mut self,
        open: &Arc<Open>,
        db: Option<&Database>,
        (low, high): Bounds<'_>,
    ) {
        self.range = Some(Range {
            structure: self.structure(open, db),
            low: low.to_vec(),
            high: high.map(<[u8]>::to_vec),
            payload: self.payload.len(),
            operations: self.operations.len(),
        });
    }

    /// Whether there is one.
    pub(crate) fn has_range(&self) -> bool {
        self.range.is_some()
    }

    /// Its structure and its bounds.
    pub(crate) fn range(&self) -> Option<(&Arc<Open>, Bounds<'_>)> {
        let range = self.range.as_ref()?;
        let open = &self.structures[range.structure as usize].open;
        Some((open, (&range.low, range.high.as_deref())))
    }

    /// For each change before the range whether the range overrules it.
    fn gone_with_range(&self) -> impl Iterator<Item = bool> {
        self.range.iter().flat_map(|range| {
            let before = self.operations[..range.operations].iter();
            before.map(|operation| {
                let key = self.bytes_at(operation.key);
                operation.structure == range.structure && range.covers(key)
            })
        })
    }

    /// Whether the range overrules a change.
    fn range_overrules(&self) -> bool {
        self.gone_with_range().any(|is_gone| is_gone)
    }

    /// Notes which changes the range overrules.
    pub(super) fn overrule_by_range(&self, overruled: &mut [bool]) {
        for (is_gone, overruled) in self.gone_with_range().zip(overruled) {
            *overruled |= is_gone && !planted(Fault::PutsOutliveRange);
        }
    }

    /// Bytes of the log for it.
    pub(super) fn range_bytes(&self) -> usize {
        let effect = |(open, range): (&Arc<Open>, Bounds<'_>)| {
            let mut effect = Vec::new();
            encode_delete_range(open.id(), Some(StructureId(u32::MAX)), range, &mut effect);
            effect.len()
        };
        self.range().map_or(0, effect)
    }

    /// [`Batch::tell_watchers`] of the range.
    pub(super) fn tell_watchers_of_range(
        &self,
        standing: Option<&dyn Standing>,
    ) -> Option<Arc<WriteReservation>> {
        let (open, (low, high)) = self.range()?;
        open.structure.watches().before_range(
            (low, high),
            |claim| standing.is_some_and(|standing| standing.claims(claim)),
            |watch| {
                if let Some(standing) = standing {
                    standing.writes_in(watch);
                }
            },
        )
    }
}

impl Core {
    /// Takes the range of a batch out, and gives the whole batch its place in the log before. The caller is
    /// inside the gate, holds the locks of the batch, and no other thread is at work.
    pub(super) fn take_range(
        &self,
        batch: &Batch,
        door: &WriteGuard<'_>,
        mut reservation: Option<&mut Reservation<'_>>,
    ) -> Attempt<Gone> {
        let Some((open, range)) = batch.range() else {
            return Err(terrace_base::Error::invalid("a batch without a range").into());
        };
        let place = batch.range.as_ref().map_or(0, |range| range.payload);
        let (before, behind) = batch.payload.split_at(place);
        let part = StructureId(self.registry().next_id());
        let mut appended = None;
        let mut append = |pieces: &[&[u8]]| {
            if let Some(reservation) = reservation.as_mut() {
                appended = Some(self.log().append(reservation, pieces));
            }
        };
        let mut log = |has_part: bool| {
            let mut effect = Vec::new();
            encode_delete_range(open.id(), has_part.then_some(part), range, &mut effect);
            match planted(Fault::CutUnlogged) {
                true => append(&[&batch.payload]),
                false => append(&[before, effect.as_slice(), behind]),
            }
        };
        let cut = self
            .registry()
            .cut_inside(door, open, range, part, &mut log);
        let (removed, part) = match cut {
            Ok((RangeRemoved::Nothing, _)) => {
                // What the batch has put there before is not there, for who replays it too.
                match batch.range_overrules() {
                    true => log(false),
                    false if batch.has_no_operations() => {}
                    false => append(&[&batch.payload]),
                }
                (RangeRemoved::Nothing, None)
            }
            Ok(cut) => cut,
            Err(interrupt) if appended.is_none() => return Err(interrupt),
            Err(interrupt) => {
                let what = format!("a range was taken out in part: {interrupt:?}");
                return Err(self.kill(terrace_base::Error::invalid(what)).into());
            }
        };
        Ok(Gone {
            removed,
            part,
            appended,
        })
    }
}
