//! What a test of the suite answers with.

use terrace_base::Error;

/// What was not as it should be.
#[derive(Debug)]
pub struct Failure(pub String);

/// Result of a test.
pub type Check = std::result::Result<(), Failure>;

impl From<Error> for Failure {
    fn from(e: Error) -> Failure {
        Failure(e.to_string())
    }
}

/// Returns a [`Failure`] unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($what:tt)+) => {
        let holds: bool = $condition;
        if !holds {
            return Err($crate::conformance::Failure(format!($($what)+)));
        }
    };
}
pub(crate) use ensure;
