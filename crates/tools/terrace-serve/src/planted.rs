//! Faults that tests plant one at a time, to show that they would be caught.
//!
//! Without the feature `planted-faults`, which only this crate's own tests switch on, nothing of this is
//! compiled in.

/// What can be broken on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Fault {
    /// A connection whose commands wait in the pool goes on with the next ones.
    ReplyOrder = 1,
    /// A watched key counts as changed only if it holds something else.
    WatchByValue,
    /// A number of a collection is given out twice.
    ElementsOfOldKey,
    /// With `always` answers do not wait for the sync.
    AlwaysAnswersEarly,
    /// A step of a scan goes on behind the hash that it should go on with.
    CursorSkips,
    /// A field that is removed stays in the count.
    CountDrifts,
    /// What the queue says is due is removed, whatever the head says.
    QueueBelieved,
    /// The elements of a collection that a string was written over stay.
    LeftElements,
    /// An element is taken for a client that is gone.
    PopLost,
    /// A field that is written anew keeps when it expires.
    LeaseKept,
    /// A transaction that runs again publishes again.
    SaidTwice,
    /// A client that is woken looks in the pool, and one that was served there while it was woken again gets no answer.
    WokenUnanswered,
    /// A transaction looks at what it watches without keeping others from changing it.
    WatchUnlocked,
    /// When the server stops, the pool ends before the loops, which still hand it commands.
    PoolEndsFirst,
}

#[cfg(feature = "planted-faults")]
static PLANTED: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Plants a fault, or none, for the whole process.
#[cfg(feature = "planted-faults")]
pub fn plant(fault: Option<Fault>) {
    let number = fault.map_or(0, |fault| fault as u8);
    PLANTED.store(number, std::sync::atomic::Ordering::SeqCst);
}

/// Whether this one is planted.
#[cfg(feature = "planted-faults")]
#[inline]
pub fn planted(fault: Fault) -> bool {
    PLANTED.load(std::sync::atomic::Ordering::Relaxed) == fault as u8
}

/// Whether this one is planted.
#[cfg(not(feature = "planted-faults"))]
#[inline]
pub fn planted(_: Fault) -> bool {
    false
}
