//! In which memory a segment lies: there is one.

/// In which memory a segment lies.
#[derive(Default)]
pub struct Seat {}

impl Seat {
    #[inline(always)]
    pub fn is_slow(&self) -> bool {
        false
    }
}
