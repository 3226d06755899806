//! Kinds of memory, and what is opened once to take bytes of them.

mod blocks;
mod numa;
mod page;
mod region;
mod shared;
mod source;
#[cfg(test)]
mod tests;

pub use numa::node_of;
pub(crate) use page::PAGE;
pub(crate) use region::Region;
pub use source::Memory;
pub(crate) use source::Source;
