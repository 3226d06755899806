//! Keys: which types can be keys, and the order-preserving form the stages store them in.

mod bytes;
mod index;
mod ints;
mod tuples;

pub use bytes::MAX_KEY_LEN;
pub use index::{IndexKey, Probe};
pub use tuples::KeyPart;
