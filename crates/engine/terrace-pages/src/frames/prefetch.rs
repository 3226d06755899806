//! Asking the processor for what will be read soon, so that it comes while something else is done.

/// Asks for the cache line with the first byte of `item`.
#[inline]
pub fn prefetch<T>(item: &T) {
    prefetch_at(std::ptr::from_ref(item).cast());
}

/// Asks for the cache line of an address, whatever is there.
#[inline]
pub(crate) fn prefetch_at(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch of any address changes nothing that a program can see.
        unsafe { _mm_prefetch(at.cast::<i8>(), _MM_HINT_T0) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}
