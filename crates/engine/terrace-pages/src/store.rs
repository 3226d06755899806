//! The page store: the face of its parts, each of which has state of its own and needs only those below it: the
//! [`Pager`] brings pages in; it has the [`Storage`], what is on disk; that has the [frames](crate::frames), what is in
//! memory; and these have what is [common](crate::parts::common) to all. What is public of them stands here.
//!
//! Whoever waits (for a disk, for frames) holds no latch and is not inside the gate.

use std::sync::Arc;

use terrace_base::{Error, PageId, Result};

use crate::checkpoints::checkpoint::{Checkpoint, CheckpointReport};
use crate::disk::Storage;
use crate::disk::space::SpaceSeen;
use crate::enter::panics::Watch;
use crate::enter::retry::{Attempt, Retry};
use crate::enter::write_guard::WriteGuard;
use crate::frames::frame::Class;
use crate::frames::guard::{Exclusive, Optimistic, Shared, Ticket};
use crate::frames::stats::StoreStats;
use crate::frames::stay::Staying;
use crate::map::{SlotSet, Superblock};
use crate::pager::Pager;
use crate::parts::durable::CheckpointMeta;
use crate::parts::large::{Large, LargeGuard};
use crate::parts::pace::Pace;
use crate::parts::pinned::PinState;
use crate::parts::space_quota::{Space, SpaceQuota};
use crate::parts::space_reservations::{SavedPart, SavingMark};

/// The page store: pages of one size that are read and changed in memory, and that checkpoints make durable.
pub struct PageStore {
    pager: Pager,
    large: Large,
}

/// What a part does for who asks the store.
macro_rules! done_by {
    ($part:expr; $(
        $(#[$about:meta])*
        pub fn $name:ident$(<$time:lifetime>)?(
            &$($life:lifetime)? $store:ident $(, $given:ident: $kind:ty)*
        ) $(-> $answer:ty)?;
    )*) => {
        impl PageStore {$(
            $(#[$about])*
            #[inline]
            pub fn $name$(<$time>)?(&$($life)? $store $(, $given: $kind)*) $(-> $answer)? {
                $part.$name($($given),*)
            }
        )*}
    };
}

done_by! { self.pager.storage().common();
    /// Size of a page in bytes.
    pub fn page_bytes(&self) -> usize;
    /// Stops all writing until the store is opened again.
    pub fn poison(&self, cause: &Error) -> Error;
    /// Calls `hook` with the error when the store is halted, before any thread can see what was left half done. It must
    /// not wait. Only the first one counts.
    pub fn on_halt(&self, hook: impl Fn(&Error) + Send + Sync + 'static);
    /// Stops everything until the store is opened again, after a panic in `work`.
    #[cold]
    pub fn halt(&self, work: &str);
    /// Keeps an eye on `work`; see [`Watch`].
    pub fn watch(&self, work: &'static str) -> Watch<'_>;
    /// Lets others go on, for a thread that is about to try again what another thread stood in the way of.
    ///
    /// # Errors
    /// `Poisoned` when that may be for ever, because the store is halted.
    pub fn back_off(&self) -> Result<()>;
    /// Whether it only reads an image.
    pub fn is_image(&self) -> bool;
    /// Whether it only reads an image of a store that others write to.
    pub fn is_of_another(&self) -> bool;
    /// Counts memory that whoever reads this image takes beside it.
    pub fn count_image_bytes(&self, bytes: u64);
    /// The image that it reads, if it does.
    pub fn pinned(&self) -> Option<&Arc<PinState>>;
    /// Refuses to change an image.
    ///
    /// # Errors
    /// If it is one.
    pub fn check_writable(&self) -> Result<()>;
    /// Number of frames.
    pub fn frames(&self) -> u64;
}

done_by! { self.pager.storage().common().health;
    /// Refuses everything that changes pages after a failure with unknown outcome.
    pub fn check_poison(&self) -> Result<()>;
    /// Whether a panic has left something half done.
    pub fn is_halted(&self) -> bool;
}

done_by! { self.pager.storage().frames();
    /// A new page: zeroed, exclusively latched, dirty. O(1).
    ///
    /// # Errors
    /// `NoFrame` when no frame can be had without waiting, `HotFull` when a hot page was asked for and the hot class
    /// is at its cap.
    pub fn allocate<'d>(&'d self, door: &'d WriteGuard<'d>, class: Class) -> Attempt<Exclusive<'d>>;
    /// The page under its exclusive latch, if it is in memory; waits for the holders.
    pub fn exclusive<'d>(&'d self, pid: PageId, door: &'d WriteGuard<'d>) -> Attempt<Exclusive<'d>>;
    /// Like [`PageStore::exclusive`], but `Conflict` instead of waiting.
    pub fn try_exclusive<'d>(&'d self, pid: PageId, door: &'d WriteGuard<'d>) -> Attempt<Exclusive<'d>>;
    /// Frees a page that nothing points to any more, without reading it where it is not in memory. O(1).
    ///
    /// # Errors
    /// `Conflict` when it is being read in, or is free.
    pub fn free_unread(&self, door: &WriteGuard<'_>, pid: PageId) -> Attempt<()>;
    /// The page for optimistic reading, if it is in memory. O(1).
    pub fn optimistic(&self, pid: PageId) -> Attempt<Optimistic<'_>>;
    /// The same where nothing but what is at `at` is about to be read, beside the header: the lines behind that would
    /// only push out others.
    pub fn optimistic_at(&self, pid: PageId, at: usize) -> Attempt<Optimistic<'_>>;
    /// The page for optimistic reading, if it is in this frame, which may be any number: then it is found without the
    /// page table. O(1).
    pub fn optimistic_in(&self, frame: u32, pid: PageId) -> Option<Optimistic<'_>>;
    /// Asks the processor for what whoever latches this page looks at first, and for the line of it that has the byte
    /// at `at`: for pages whose turn comes soon, so that they are not waited for one after the other. Nothing happens
    /// where the page is not in memory. O(1).
    pub fn prefetch_at(&self, pid: PageId, at: usize);
    /// The page under its shared latch, if it is in memory; waits for an exclusive holder.
    pub fn shared(&self, pid: PageId) -> Attempt<Shared<'_>>;
    /// Whether there is a page of this number. A hint: it may be freed at any time.
    pub fn exists(&self, pid: PageId) -> bool;
    /// Whether the page is in memory now. A hint: it may leave at any time.
    pub fn is_resident(&self, pid: PageId) -> bool;
    /// Reads the four bytes at `at` of the page that `ticket` was taken of; `None` if the frame holds another page by
    /// now or a thread is changing it.
    pub fn ticket_u32(&self, ticket: Ticket, at: usize) -> Option<u32>;
    /// Lets a page stay in memory, if it is there. For few pages and not for long: no other page gets their frames.
    /// O(1).
    ///
    /// # Errors
    /// `Miss` when it is not in memory, `Conflict` when it is on its way, or too many let it stay.
    pub fn let_stay(&self, pid: PageId) -> Attempt<Staying<'_>>;
    /// Whether this page, which is not in memory, was until lately: some more memory for pages that are not hot would
    /// have kept it. May be wrong. O(1).
    pub fn left_lately(&self, pid: PageId) -> bool;
    /// One more than the highest page number that was ever given out.
    pub fn page_numbers(&self) -> u64;
    /// Pages that exist, those that lie in memory alone too.
    pub fn pages_in_use(&self) -> u64;
    /// Pages that exist and have a place in the file, or are to get one.
    pub fn live_pages(&self) -> u64;
    /// Checks that everything that is counted adds up. The caller makes sure that nothing else goes on in the store:
    /// no operation, no cleaner, no checkpoint. Reads no page; O(pages).
    ///
    /// # Errors
    /// `Poisoned`, naming the first account that is wrong: a defect of the program.
    pub fn check_accounts(&self) -> Result<()>;
    /// Frames that hold hot pages.
    pub fn hot_frames(&self) -> u64;
    /// Most frames that hot pages may take: a cap, not a reservation. Falls when frames are lent or kept to be lent,
    /// and with the share.
    pub fn hot_cap(&self) -> u64;
    /// Whether hot pages have nearly all the frames that they may have. Before that there is no need to put records
    /// closer together.
    pub fn hot_pages_run_out(&self) -> bool;
    /// Whether hot pages have all the frames that they may have, except for `but` of them: then no more can be
    /// allocated. O(1).
    pub fn lacks_hot_pages(&self, but: u64) -> bool;
    /// Frames that hold inner pages of tiers that are not hot.
    pub fn inner_frames(&self) -> u64;
    /// Frames that hold pages that gather changes.
    pub fn top_frames(&self) -> u64;
    /// Tells the store how near a checkpoint is, from 0, not at all, to 1, where it begins: hot pages make room for
    /// this share of what it will need. To be told more often than once in half a minute; see `parts/reserve.rs`.
    /// O(1).
    pub fn expect_checkpoint(&self, near: f64);
    /// Lends frames to other parts of the budget, or takes them back, until what those use beyond what was set aside
    /// for them is covered. Bounded; the caller holds nothing.
    pub fn rebalance(&self);
    /// Bytes used beside the frames that grow and shrink.
    pub fn dynamic_bytes(&self) -> u64;
    /// Takes memory of the budget for what only makes lookups faster, if there is some left of the small part that
    /// all of these may have together. O(1).
    pub fn take_hint_bytes(&self, bytes: u64) -> bool;
}

done_by! { self.pager.storage().frames().shares();
    /// The share of their highest cap that hot pages may have, in per mille.
    pub fn hot_share(&self) -> u32;
    /// Sets that share: what hot pages do not have serves as a cache of cold ones. Whoever lowers it sees to it that
    /// records leave hot pages.
    pub fn set_hot_share(&self, per_mille: u32);
    /// Whether the last one who asked for a hot page got none, so that room elsewhere is of no use to him. A hint.
    /// O(1).
    pub fn wants_hot_page(&self) -> bool;
    /// Frames that are set aside for inner pages, if a caller has said how many: up to that number the clock keeps
    /// them much longer than pages of records, and those beyond it go first.
    pub fn inner_kept(&self) -> Option<u64>;
    /// Sets that number; 0 for as many as there happen to be.
    pub fn set_inner_kept(&self, pages: u64);
}

done_by! { self.pager.storage().frames().lent();
    /// Sets `frames` frames aside for pages that gather changes, beside those that are already.
    pub fn set_tops_aside(&self, frames: u64);
    /// The end of what was set aside with [`PageStore::set_tops_aside`].
    pub fn give_tops_back(&self, frames: u64);
    /// Tells the store that a part above it uses `bytes` bytes of the budget beyond what was set aside for it when
    /// the store was opened (a long scan, say); frames make room for them soon.
    pub fn take_extra_bytes(&self, bytes: u64);
    /// The end of what was taken with [`PageStore::take_extra_bytes`].
    pub fn give_extra_bytes(&self, bytes: u64);
    /// The end of what was taken with [`PageStore::take_hint_bytes`].
    pub fn give_hint_bytes(&self, bytes: u64);
}

done_by! { self.pager;
    /// Does what an attempt that answered with a retry needs before it can start over; returns the error if starting
    /// over would not help. The caller holds nothing. `HotFull` is the tier's business and only backs off here.
    pub fn settle(&self, interrupt: Retry) -> Result<()>;
    /// [`PageStore::settle`] for an attempt that needs many pages: when nearly all pages in memory have changed, what
    /// one attempt brings in pushes out what the one before needed, so some are written now and then. `tries` is the
    /// caller's, zero before the first.
    pub fn settle_many(&self, interrupt: Retry, tries: &mut u32) -> Result<()>;
    /// As [`PageStore::settle`], for a caller that goes through pages in their order.
    ///
    /// # Errors
    /// As [`PageStore::settle`].
    pub fn settle_in_order(&self, interrupt: Retry) -> Result<()>;
    /// Brings a page into memory. Blocking; the caller holds nothing. Returns at once if it is there, or if it was
    /// freed meanwhile.
    ///
    /// # Errors
    /// I/O errors, and damage when the bytes are not those of this page.
    pub fn fault_in(&self, pid: PageId) -> Result<()>;
    /// Brings pages in, many at a time, and returns once all of them are there, as far as they exist. `pages` is in
    /// any order afterwards. More than [`PageStore::most_together`] may push each other out again: the caller looks.
    /// Blocking; the caller holds nothing.
    ///
    /// # Errors
    /// As [`PageStore::fault_in`], of the first page that cannot be read; the others are there.
    pub fn fetch(&self, pages: &mut Vec<PageId>) -> Result<()>;
    /// Pages that are wanted together, at most.
    pub fn most_together(&self) -> usize;
    /// For who is about to look at all of these pages, in this order: if the first one is not in memory it is brought
    /// in together with others, into frames that take no waiting. Who looks at one that cannot be read is told then.
    /// Blocking; the caller holds nothing.
    pub fn read_ahead(&self, pages: impl IntoIterator<Item = PageId>);
    /// Brings a page in that is the first of `pages` which are needed, and with it those of the others that follow
    /// its number: `before` is the one that was needed before it.
    ///
    /// # Errors
    /// As [`PageStore::fault_in`].
    pub fn fault_in_chain(&self, pid: PageId, before: Option<PageId>, pages: usize) -> Result<()>;
    /// An access method says which pages follow this one, which is not in memory, for who goes on to them: at most
    /// [`PageStore::most_following`] are of use. For the next call of [`PageStore::settle_in_order`] on this thread.
    pub fn note_following(&self, pid: PageId, following: impl Iterator<Item = PageId>);
    /// See [`PageStore::note_following`]: those that are read ahead, and the one that is missed next.
    pub fn most_following(&self) -> usize;
    /// Frees a page that nothing owns, whatever is in it, also if it cannot be read. Blocking; the caller holds
    /// nothing, and no other thread uses the page.
    ///
    /// # Errors
    /// Those of the store.
    pub fn free_unowned(&self, pid: PageId) -> Result<()>;
    /// Has pages that lie at the end of the file written further in front, until it has about as many slots as pages:
    /// marks at most `most` of those from number `from` on as changed, and lets all writes go to the front as long as
    /// there is room. Returns how many, and where to go on; none where nothing is left. To be called again after a
    /// checkpoint, and [`PageStore::end_compacting`] at the end. The caller holds nothing.
    ///
    /// # Errors
    /// Those of the disk; a page that cannot be read stays where it is.
    pub fn compact_some(&self, from: u64, most: u64) -> Result<(u64, Option<u64>)>;
    /// The same, until the file has `bound` slots. Looks at a bounded number of pages, whether they are moved or not.
    ///
    /// # Errors
    /// As [`PageStore::compact_some`].
    pub fn compact_some_below(&self, from: u64, most: u64, bound: u64) -> Result<(u64, Option<u64>)>;
    /// Marks some pages at the end of a file with much free space as changed, so that they are written further in
    /// front and the file can be cut. Bounded work; the caller holds nothing.
    pub fn relocate_some(&self) -> Result<()>;
}

done_by! { self.large;
    /// A number for a large value that is being written: another one each time, while the store is open.
    pub fn number_large_value(&self) -> u64;
    /// No cut begins while one of these is held: pages may be allocated that nothing points to yet. Taken by a caller
    /// that is not inside the gate: a checkpoint that waits for such guards lets no other thread have one meanwhile. So
    /// whoever takes the first one of a thread has nothing that a holder of one may wait for. A thread may hold
    /// several.
    pub fn large_guard(&self) -> LargeGuard<'_>;
    /// The same where no cut waits or is being made, or the thread has one already; never waits.
    pub fn try_large_guard(&self) -> Option<LargeGuard<'_>>;
}

done_by! { self.pager.storage().gate();
    /// Waits until every thread that is inside the gate now has left it, and for no thread that comes later. The caller
    /// is not inside and holds nothing. Usually one look at as many counters as threads write.
    pub fn grace(&self);
}

done_by! { self.pager.storage();
    /// Goes in to change pages. Waits, holding nothing, while the gate is closed or while the checkpointer must first
    /// write pages that too much was saved of. O(1).
    ///
    /// # Errors
    /// `DiskFull` when there is no space to write what would be changed, `Poisoned`.
    pub fn enter(&self) -> Result<WriteGuard<'_>>;
    /// Like [`PageStore::enter`], but may use the reserve of space: for deletes, and for what the store itself needs
    /// to get out of trouble.
    pub fn enter_for(&self, space: Space) -> Result<WriteGuard<'_>>;
    /// Like [`PageStore::enter_for`], for a writer that may change as much as `promise` says under this one write
    /// guard, and must not fail on the way for lack of space.
    ///
    /// # Errors
    /// As there, and `MemoryTooSmall` when there may be too few numbers for new pages.
    pub fn enter_for_many(&self, space: Space, promise: SpaceQuota) -> Result<WriteGuard<'_>>;
    /// Goes in to free pages, which makes none dirty and so needs no slots: who has unlinked what he frees must not
    /// be refused. Waits like [`PageStore::enter`].
    ///
    /// # Errors
    /// `Poisoned`.
    pub fn enter_to_free(&self) -> Result<WriteGuard<'_>>;
    /// Goes in if that takes no waiting at all, and more may be saved for the cut, if there is one.
    pub fn try_enter(&self) -> Option<WriteGuard<'_>>;
    /// Whether so much is saved for the cut, if there is one, that who need not change pages had better wait. O(1).
    pub fn saves_enough(&self) -> bool;
    /// For who changes a lot under one write guard: waits, as [`PageStore::enter`] does, while the checkpointer must
    /// first write pages that too much was saved of. The caller holds no latch. O(1) if there is nothing to wait for.
    pub fn wait_for_saved(&self);
    /// Lends frames for what was taken by [`PageStore::take_extra_bytes`], and has pages written if there are too
    /// many changed ones. Bounded, so there may be fewer than are needed afterwards: hot records take their time.
    /// Blocking; the caller holds nothing.
    ///
    /// # Errors
    /// `Poisoned` when every cold page is dirty and writing has stopped.
    pub fn make_room_for_extra(&self) -> Result<()>;
    /// What the length of the file depends on. O(free slots at the end / 64).
    pub fn space_seen(&self) -> SpaceSeen;
    /// Whether a writer that is inside already may change more pages than it was promised: there are as many free
    /// slots as for migration, and what all others were promised. O(1).
    pub fn has_slack(&self) -> bool;
    /// The same, and for `pages` pages more.
    pub fn has_slack_for(&self, pages: u64) -> bool;
    /// Whether space would be gained by a checkpoint: much of the file is held by the last image alone, or a writer
    /// that found the disk full asked for it.
    pub fn wants_checkpoint(&self) -> bool;
    /// The superblock of the last durable checkpoint.
    pub fn superblock(&self) -> Superblock;
    /// Sees to it that the checkpoint that was opened is durable: the sync of its superblock may have failed, or may
    /// never have come to be, and yet the superblock is read. To be called before anything is done that takes it for
    /// the last one. Writes what is there already, into the same place: a sync alone may find nothing to do where the
    /// cache has let go of what it could not write.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn confirm(&self) -> Result<()>;
    /// Deletes map files that a checkpoint left behind when it was cut off. To be called once it is known that no
    /// newer checkpoint than the opened one was ever durable: what lies there may be all that is left of that one.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn remove_leftovers(&self) -> Result<()>;
    /// The version of the format that the files are of, or will be from the next checkpoint on.
    pub fn format_version(&self) -> u32;
    /// From the next checkpoint on the files are of this version of the format at least, which older programs refuse.
    pub fn raise_format(&self, version: u32);
    /// The backup to this set, whose image was pinned last with these slots, has failed.
    pub fn backup_failed(&self, set: u64, written: Option<SlotSet>);
    /// Gives up the oldest pin for this cause, if any slot is kept for pins; tells whether it did.
    pub fn give_up_oldest_pin(&self, cause: &'static str) -> bool;
    /// Sets how many slots may be kept for pins, all together; 0 for as many as the largest pinned image has pages.
    pub fn limit_pins(&self, slots: u64);
    /// Sets how many bytes of the disk the data file leaves to others when it grows.
    pub fn leave_free(&self, bytes: u64);
}

done_by! { self.pager.storage().common().claims;
    /// Whether every operation may use the reserve of space from now on, to the last slot: while the log is replayed,
    /// whose changes had their space once, but perhaps in another order.
    pub fn open_reserve(&self, open: bool);
    /// Whether a writer that found the disk full has asked for a checkpoint, or for haste of the one that is made.
    pub fn is_checkpoint_asked_for(&self) -> bool;
    /// As much became dirty in memory alone as takes `slots` slots once it is saved: they are kept free for it. The
    /// caller is inside the gate. O(1).
    pub fn add_fresh(&self, slots: u64);
    /// As much of it is dirty no more: it went down, or is as below. The caller is inside the gate. O(1).
    pub fn take_dirty(&self, slots: u64);
    /// Large values were put that the log has, too, and take this many slots: as many are kept free for a replay over
    /// an image that has them. The caller is inside the gate. O(1).
    pub fn add_large(&self, slots: u64);
    /// Slots for large values that were put since the place where replay begins.
    pub fn large_since(&self) -> u64;
    /// What is counted of both now: at an instant, where nothing is to be overlooked.
    pub fn saving_mark(&self) -> SavingMark;
    /// A pass over this that began then is complete: what it has saved takes `slots` slots, which are kept free for the next
    /// one.
    pub fn has_saved(&self, what: SavedPart, mark: SavingMark, slots: u64);
    /// Of what has no log nothing was changed before this was counted, since it was saved.
    pub fn unlogged_is_saved(&self, mark: SavingMark);
    /// What this round of pieces has saved so far takes `slots` slots: what it will grow by is kept free beside.
    pub fn has_saved_part(&self, slots: u64);
    /// A checkpoint is durable over which the log is replayed from then on.
    pub fn replays_from(&self, mark: SavingMark);
    /// From now on slots are kept for a whole pass, not for the next pieces of one alone: what has no log cannot be saved
    /// in pieces, with checkpoints between them.
    pub fn keep_whole_pass(&self);
    /// A whole pass has saved what takes `slots` slots so far; 0 once a checkpoint with it is durable, or it was given up.
    pub fn pass_has_saved(&self, slots: u64);
    /// No slots are kept for a pass any more: nobody writes, and all is saved.
    pub fn all_is_saved(&self);
    /// Checkpoints cut the file behind its last page from now on, and leave nothing for who writes next.
    pub fn cut_tightly(&self);
    /// Writes go to where they usually go again, and room is left for them.
    pub fn end_compacting(&self);
}

impl PageStore {
    pub(crate) fn over(storage: Storage) -> PageStore {
        PageStore {
            pager: Pager::new(storage),
            large: Large::default(),
        }
    }

    #[cfg(all(test, not(feature = "shuttle")))]
    pub(crate) fn pager(&self) -> &Pager {
        &self.pager
    }

    pub(crate) fn storage(&self) -> &Storage {
        self.pager.storage()
    }

    /// Runs `f`, which must be quick and not enter, at an instant at which no thread is inside the gate; no cut comes
    /// of it. The caller is not inside and holds nothing.
    pub fn instant<T>(&self, f: impl FnOnce() -> T) -> T {
        self.storage().gate().shut(f).0
    }

    /// Asks for a checkpoint, or for haste if one is being made: a writer found no space on the disk.
    pub fn ask_for_checkpoint(&self) {
        self.storage().common().claims.want_checkpoint(true);
    }

    /// Makes a checkpoint. `at_cut` runs while the gate is closed, so it must be quick. The caller holds nothing. One
    /// checkpoint runs at a time; a second one waits.
    ///
    /// # Errors
    /// `DiskFull` when there was no space for it: it was given up, nothing is lost. Anything after which the durable
    /// state is unknown poisons the store.
    pub fn checkpoint(
        &self,
        pace: Pace,
        at_cut: &mut dyn FnMut() -> CheckpointMeta,
    ) -> Result<CheckpointReport> {
        self.checkpoint_then(pace, at_cut, &mut || Ok(()), &mut |_| Ok(()))
    }

    /// As [`PageStore::checkpoint`]; calls `durable_soon` when all is written but the superblock, and gives it up for
    /// an error of that; calls `durable_now` with the generation as soon as the superblock is durable, and before any
    /// slot of the older image is given out again: whoever can refuse that older image from now on notes it here.
    ///
    /// # Errors
    /// As there; an error of `durable_now` poisons.
    pub fn checkpoint_then(
        &self,
        pace: Pace,
        at_cut: &mut dyn FnMut() -> CheckpointMeta,
        durable_soon: &mut dyn FnMut() -> Result<()>,
        durable_now: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<CheckpointReport> {
        Checkpoint {
            storage: self.storage(),
            pace,
        }
        .make(&self.large, at_cut, durable_soon, durable_now)
    }

    /// A snapshot of the figures. Takes the map mutex for an instant.
    pub fn stats(&self) -> StoreStats {
        self.storage().frames().stats(self.storage().pin_bytes())
    }
}

#[cfg(feature = "planted-faults")]
impl PageStore {
    /// How often the gate was passed by those who are inside now.
    pub fn inside(&self) -> u64 {
        self.storage().gate().inside()
    }
}
