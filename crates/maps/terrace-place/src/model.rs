//! What a touch of a node costs: nothing but the touch itself, or what a measurement wants to
//! know or to add.

use crate::id::NodeId;

/// Sees every node that an operation touches on its way down.
pub trait Model: Send + Sync + 'static {
    /// A node is touched.
    fn touch(&self, id: NodeId, at: *const u8) {
        let _ = (id, at);
    }

    /// A node of this many bytes is made.
    fn born(&self, id: NodeId, bytes: usize) {
        let _ = (id, bytes);
    }

    /// A node is freed.
    fn gone(&self, id: NodeId) {
        let _ = id;
    }
}

/// Nothing beside the touch itself: compiled away.
#[derive(Debug, Clone, Copy, Default)]
pub struct Plain;

impl Model for Plain {
    #[inline(always)]
    fn touch(&self, _: NodeId, _: *const u8) {}
    #[inline(always)]
    fn born(&self, _: NodeId, _: usize) {}
    #[inline(always)]
    fn gone(&self, _: NodeId) {}
}
