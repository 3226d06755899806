//! The instructions that write a line of the cache back, chosen by what the processor has.

use std::sync::atomic::AtomicU64;

use super::LINE_WORDS;

/// Which instruction writes a line back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Instruction {
    /// Keeps the line in the cache.
    Clwb,
    /// Drops the line, without order among others.
    ClflushOpt,
    /// Drops the line, one after the other.
    Clflush,
    /// Arm's clean to the point of persistence.
    DcCvap,
}

/// The best that this processor has; none where there is nothing that reaches persistent memory.
#[cfg(target_arch = "x86_64")]
pub fn best() -> Option<Instruction> {
    let most = core::arch::x86_64::__cpuid(0).eax;
    let features = if most >= 7 {
        core::arch::x86_64::__cpuid_count(7, 0).ebx
    } else {
        0
    };
    Some(if features >> 24 & 1 == 1 {
        Instruction::Clwb
    } else if features >> 23 & 1 == 1 {
        Instruction::ClflushOpt
    } else {
        Instruction::Clflush
    })
}

/// The best that this processor has; none where there is nothing that reaches persistent memory.
#[cfg(target_arch = "aarch64")]
pub fn best() -> Option<Instruction> {
    std::arch::is_aarch64_feature_detected!("dpb").then_some(Instruction::DcCvap)
}

/// No other processor is known to have one.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub fn best() -> Option<Instruction> {
    None
}

/// Begins to write back the lines of these words; [`fence`] waits for it.
pub fn flush(words: &[AtomicU64], instruction: Instruction) {
    // A line that begins before the first word is the line of that word all the same.
    let first = words.as_ptr() as usize / 64 * 64;
    let end = words.as_ptr_range().end as usize;
    for line in (first..end).step_by(LINE_WORDS * 8) {
        write_back(line, instruction);
    }
}

#[cfg(target_arch = "x86_64")]
fn write_back(line: usize, instruction: Instruction) {
    // SAFETY: the line holds at least one word of a live slice, so it is mapped; none of the instructions
    // changes memory, and `best` has found the one that is used.
    unsafe {
        match instruction {
            Instruction::Clwb => core::arch::asm!("clwb [{0}]", in(reg) line, options(nostack)),
            Instruction::ClflushOpt => {
                core::arch::asm!("clflushopt [{0}]", in(reg) line, options(nostack));
            }
            _ => core::arch::asm!("clflush [{0}]", in(reg) line, options(nostack)),
        }
    }
}

#[cfg(target_arch = "aarch64")]
fn write_back(line: usize, _instruction: Instruction) {
    // SAFETY: the line holds at least one word of a live slice, so it is mapped; `best` has found the
    // instruction, written by its encoding because the assembler wants a feature flag for its name.
    unsafe { core::arch::asm!("sys #3, c7, c12, #1, {0}", in(reg) line, options(nostack)) }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn write_back(_line: usize, _instruction: Instruction) {}

/// Waits for everything that this thread has flushed.
#[cfg(target_arch = "x86_64")]
pub fn fence() {
    // SAFETY: the instruction only orders stores; every x86-64 has it.
    unsafe { core::arch::asm!("sfence", options(nostack)) }
}

/// Waits for everything that this thread has flushed.
#[cfg(target_arch = "aarch64")]
pub fn fence() {
    // SAFETY: the instruction only waits.
    unsafe { core::arch::asm!("dsb sy", options(nostack)) }
}

/// Orders stores as seen by other threads; there is nothing to wait for.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub fn fence() {
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_flushed_is_still_there() {
        let words: Vec<AtomicU64> = (0..100).map(AtomicU64::new).collect();
        #[cfg(target_arch = "x86_64")]
        let all = [best(), Some(Instruction::Clflush)];
        #[cfg(not(target_arch = "x86_64"))]
        let all = [best()];
        for instruction in all.into_iter().flatten() {
            flush(&words[3..70], instruction);
            fence();
        }
        for (i, word) in words.iter().enumerate() {
            assert_eq!(word.load(std::sync::atomic::Ordering::Relaxed), i as u64);
        }
    }
}
