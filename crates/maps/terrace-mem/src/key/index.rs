//! What can be a key, and what a map can be asked with.

use crate::family::Family;

/// A type that can be the key of the maps of this crate.
///
/// A key is stored in an order-preserving encoded form, never as itself: as a `u64`
/// ([`IntFamily`](crate::IntFamily)) or as a byte string ([`ByteFamily`](crate::ByteFamily)).
/// The map is ordered by the encoded form, which for every type that this crate implements the
/// trait for is the order of its `Ord`.
///
/// # What an implementation must keep
/// `decode(encode(k)) == k`, and two keys compare as their encoded forms do. An implementation
/// that breaks this gets wrong answers from the map, never undefined behaviour.
///
/// ```
/// use terrace_mem::{HybridMap, IndexKey, IntFamily};
///
/// #[derive(Debug, PartialEq)]
/// struct UserId(u32);
///
/// impl IndexKey for UserId {
///     type Family = IntFamily;
///     fn encode<R>(&self, f: impl FnOnce(u64) -> R) -> R {
///         f(u64::from(self.0))
///     }
///     fn decode(encoded: u64) -> Self {
///         UserId(encoded as u32)
///     }
/// }
///
/// let mut map = HybridMap::new();
/// map.insert(UserId(7), "seven");
/// assert_eq!(map.get(&UserId(7)), Some(&"seven"));
/// ```
pub trait IndexKey: Sized {
    /// How keys of this type are stored.
    type Family: Family;

    /// Calls `f` with the encoded form of the key.
    fn encode<R>(&self, f: impl FnOnce(<Self::Family as Family>::Ref<'_>) -> R) -> R;

    /// The key that has this encoded form.
    fn decode(encoded: <Self::Family as Family>::Ref<'_>) -> Self;
}

/// What a map with keys of type `K` can be asked with: `K` itself, and its borrowed form
/// (`str` for `String`, `[u8]` for `Vec<u8>`).
pub trait Probe<K: IndexKey> {
    /// Calls `f` with the encoded form of the key that is looked for.
    fn probe<R>(&self, f: impl FnOnce(<K::Family as Family>::Ref<'_>) -> R) -> R;
}

impl<K: IndexKey> Probe<K> for K {
    fn probe<R>(&self, f: impl FnOnce(<K::Family as Family>::Ref<'_>) -> R) -> R {
        self.encode(f)
    }
}
