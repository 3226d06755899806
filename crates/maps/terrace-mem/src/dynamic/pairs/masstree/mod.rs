//! Masstree (section 4.1): a trie whose nodes are ordered maps from words of seven bytes.
//!
//! What always holds: a word is seven bytes of the key and how many there are, so that one comparison of
//! numbers tells any two apart, zeros and beginnings of other keys too; a word that says that the key
//! goes on leads to an entry with the rest of its key, or to a layer; no layer is empty; all keys of a
//! layer share its prefix, so that two keys with a long common beginning do not make a chain of layers.
//! Layers are named by numbers and nothing is recursive.

mod cursor;
mod layer;
mod stage;
mod words;

pub use cursor::MassPos;
pub use words::Masstree;
