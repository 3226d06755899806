//! Prefetch: asks for cache lines before they are needed. Nothing is done where the processor is not known.
//!
//! One of the files with `unsafe`: the instruction itself.

/// Asks for the cache line of `slice[i]`, or one near it in memory where there is no such element.
#[inline]
pub fn prefetch<T>(slice: &[T], i: usize) {
    prefetch_at(slice.as_ptr().wrapping_add(i).cast());
}

/// Asks for this many cache lines from `slice[i]` on.
#[inline]
pub fn prefetch_lines<T>(slice: &[T], i: usize, lines: usize) {
    let start = slice.as_ptr().wrapping_add(i).cast::<u8>();
    for line in 0..lines {
        prefetch_at(start.wrapping_add(64 * line));
    }
}

#[inline]
fn prefetch_at(at: *const u8) {
    // SAFETY: a prefetch reads nothing, and no address makes it fail.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}

/// Asks for the cache lines of `item`, the first 1024 bytes of it.
#[inline]
pub fn prefetch_whole<T>(item: &T) {
    // No reference to its bytes: another thread may change some of them meanwhile.
    let start = core::ptr::from_ref(item).cast::<u8>();
    for at in (0..size_of::<T>().min(1024)).step_by(64) {
        prefetch_at(start.wrapping_add(at));
    }
}
