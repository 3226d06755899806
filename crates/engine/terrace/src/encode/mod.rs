//! Numbers as keys: bytes that compare as the numbers do, and several parts as one key.
//!
//! ```
//! use terrace::encode;
//!
//! // All sensors, by name and then by time: a name is not confused with a longer one.
//! let key = encode::Composed::new().text("kitchen").i64(-5).finish();
//! assert!(key < encode::Composed::new().text("kitchen").i64(3).finish());
//! assert!(key < encode::Composed::new().text("kitchen2").i64(-9).finish());
//! let mut parts = encode::parts(&key);
//! assert_eq!(parts.text().as_deref(), Some("kitchen"));
//! assert_eq!(parts.rest(), encode::i64(-5));
//! assert_eq!(parts.i64(), Some(-5));
//! assert!(parts.is_at_end());
//! ```

mod fixed;
mod number;
mod tuple;

pub use fixed::*;
pub use number::{number, to_number};
pub use tuple::{FromKeyPart, FromKeyParts, KeyPart, KeyParts, from_key, key};
