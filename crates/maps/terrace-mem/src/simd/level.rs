//! Which vector instructions the kernels may use.

/// Which vector instructions the kernels may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Level {
    /// None beyond the target's baseline.
    Scalar = 1,
    /// AVX2, BMI1, BMI2 and POPCNT.
    Avx2 = 2,
    /// AVX-512F on top.
    Avx512 = 3,
}
