//! Faults that tests plant one at a time, to show that they would be caught.

/// What can be broken on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Fault {
    /// A handle finds whatever lies in its place now.
    GenerationIgnored = 1,
    /// The last change of an encoded batch is dropped.
    BatchCutShort,
    /// A panic goes on to the caller.
    PanicCrosses,
    /// The record at the edge of a window is passed over.
    WindowSkips,
    /// Every failure is of one kind.
    ErrorKindLost,
    /// The last change of a commit does not cross.
    ChangeLost,
}

terrace_base::faults_of_threads!(feature = "planted-faults", Fault);
