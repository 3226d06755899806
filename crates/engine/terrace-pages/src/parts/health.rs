//! Whether a store may still be written to: the failure that has stopped it, and the panic that has.

use std::sync::OnceLock;

use terrace_base::sync::Mutex;
use terrace_base::sync::atomic::{AtomicBool, Ordering};
use terrace_base::{Error, Result};

/// Who is told of a panic.
pub(crate) type Hook = Box<dyn Fn(&Error) + Send + Sync>;

/// Whether a store may still be written to, and what has stopped it if not.
#[derive(Default)]
pub(crate) struct Health {
    poison: Mutex<Option<Error>>,
    poisoned: AtomicBool,
    halted: AtomicBool,
    hook: OnceLock<Hook>,
}

impl Health {
    /// Refuses everything that changes pages after a failure with unknown outcome.
    #[inline(always)]
    pub fn check_poison(&self) -> Result<()> {
        if self.is_poisoned() {
            return self.poison_found();
        }
        Ok(())
    }

    #[cold]
    fn poison_found(&self) -> Result<()> {
        self.poison.lock().clone().map_or(Ok(()), Err)
    }

    /// Whether there was one.
    #[inline(always)]
    pub fn is_poisoned(&self) -> bool {
        self.poisoned.load(Ordering::Relaxed)
    }

    /// Stops all writing; the first cause counts.
    pub fn poison(&self, cause: &Error) -> Error {
        let mut poison = self.poison.lock();
        let error = poison
            .get_or_insert_with(|| match cause {
                Error::Poisoned { .. } => cause.clone(),
                other => Error::Poisoned {
                    cause: other.to_string(),
                },
            })
            .clone();
        self.poisoned.store(true, Ordering::Release);
        error
    }

    /// Whether a panic has left something half done.
    #[inline]
    pub fn is_halted(&self) -> bool {
        self.halted.load(Ordering::Acquire)
    }

    /// It has, with this error, of which the hook hears first.
    pub fn halt(&self, error: &Error) {
        if let Some(hook) = self.hook.get() {
            hook(error);
        }
        self.halted.store(true, Ordering::Release);
    }

    /// Only the first hook counts.
    pub fn set_hook(&self, hook: Hook) {
        let _ = self.hook.set(hook);
    }
}
