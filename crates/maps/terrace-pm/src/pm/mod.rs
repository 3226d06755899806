//! The memory below everything: words that can be stored, flushed line by line, and fenced.
//!
//! A store is seen by every thread at once and is durable only when its line was flushed and the thread
//! that flushed it has fenced. What a crash leaves of a word in between is any value that was stored to it
//! since it was last durable ([`Order::Word`]); on x86 it is less than that ([`Order::Line`]), but nothing
//! here relies on it.

mod blocks;
mod count;
mod delay;
mod device;
#[allow(unsafe_code)]
mod flush;
mod heap;
#[allow(unsafe_code)]
mod mapped;
mod pages;
mod probe;
mod sim;
mod words;

pub use count::{Count, Counts};
pub use delay::Delay;
pub use device::{Device, Kind as DeviceKind, open_device};
pub use heap::Heap;
pub use probe::{boot_id, file_identity};
pub use sim::{Event, Images, Sim};
pub use words::{Domain, LINE_WORDS, Order, Pm, WORD, lines};

use words::store_words;
