//! Faults that tests plant one at a time, to show that they would be caught.
//!
//! Without the feature `planted-faults` nothing of this is compiled in.

/// What can be broken on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Erasing a record does not tell the leaf's membership counter.
    QuietErase,
    /// Inserting a record does not tell the leaf's membership counter.
    QuietInsert,
    /// A split gives its parent a separator that is one too high.
    HighSeparator,
    /// Packing leaves the fence of the page that records moved into.
    StaleFence,
    /// Raising a use count does not stop at the highest one and runs into the dirty bit.
    EndlessHint,
    /// A window of a leaf leaves out its last record.
    ShortWindow,
    /// A growing update does not count the old record as garbage.
    LostGarbage,
    /// A merge leaves out the pulled-down separator's child.
    LostChild,
    /// Replacing a record loses its flags.
    LostFlags,
    /// Writing a large value links its pages in the wrong order.
    CrossedChain,
}

impl Fault {
    /// All of them.
    #[cfg(any(test, feature = "planted-faults"))]
    pub const ALL: [Fault; 10] = [
        Fault::QuietErase,
        Fault::QuietInsert,
        Fault::HighSeparator,
        Fault::StaleFence,
        Fault::EndlessHint,
        Fault::ShortWindow,
        Fault::LostGarbage,
        Fault::LostChild,
        Fault::LostFlags,
        Fault::CrossedChain,
    ];
}

#[cfg(any(test, feature = "planted-faults"))]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Fault>> = const { std::cell::Cell::new(None) };
}

/// Plants a fault in all trees that this thread works on, or takes it out.
#[cfg(any(test, feature = "planted-faults"))]
pub fn plant(fault: Option<Fault>) {
    PLANTED.with(|planted| planted.set(fault));
}

/// Whether this fault is planted.
#[inline(always)]
pub(crate) fn planted(fault: Fault) -> bool {
    #[cfg(any(test, feature = "planted-faults"))]
    return PLANTED.with(|planted| planted.get() == Some(fault));
    #[cfg(not(any(test, feature = "planted-faults")))]
    {
        let _ = fault;
        false
    }
}
