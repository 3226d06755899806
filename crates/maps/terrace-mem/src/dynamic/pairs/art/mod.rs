//! The adaptive radix tree (section 4.1, appendix A): nodes of four sizes, prefixes left out of the
//! way, whole keys in the leaves.
//!
//! What always holds: a node has two entries below it at least, each behind a child or at its end; all
//! keys below a node share the bytes on the way to it and its prefix. A key that is the beginning of
//! others hangs at the `end` of the node where it ends, so that no key needs a terminator. Nothing is
//! recursive: the depth is as great as a key is long.

mod cursor;
mod node;
mod radix;
mod stage;

pub use cursor::ArtPos;
pub use radix::Art;

#[cfg(test)]
mod tests {
    use super::Art;
    use crate::dynamic::conformance::{bytes, ints, refilled};

    #[test]
    fn radix_trees() {
        ints::<Art<_, _>>(|_| {});
        bytes::<Art<_, _>>(|_| {});
        refilled::<Art<_, _>>(|_| {});
    }
}
