//! The machinery of faults that tests plant, one at a time, to show that they would be caught, and of points at
//! which a test steps in between.
//!
//! Each crate names faults and points of its own, and says under which condition they can be planted; without it
//! nothing of this is compiled in.

use std::cell::RefCell;

/// What a test does at a point.
pub type Hook<P> = Box<dyn FnMut(P)>;

/// What is done at the points that a thread reaches.
pub struct Hooks<P>(RefCell<Option<Hook<P>>>);

impl<P> Hooks<P> {
    /// Nothing.
    pub const fn none() -> Hooks<P> {
        Hooks(RefCell::new(None))
    }

    /// This from now on, except inside of itself.
    pub fn set(&self, hook: Option<Hook<P>>) {
        *self.0.borrow_mut() = hook;
    }

    /// A point is reached.
    pub fn reached(&self, point: P) {
        let taken = self.0.borrow_mut().take();
        if let Some(mut hook) = taken {
            hook(point);
            *self.0.borrow_mut() = Some(hook);
        }
    }
}

/// `plant` and `planted` for faults of this type, which concern the thread that plants them, where the condition
/// holds; otherwise `planted` alone, which answers no at compile time.
#[macro_export]
macro_rules! faults_of_threads {
    ($when:meta, $fault:ty) => {
        #[cfg($when)]
        ::std::thread_local! {
            static PLANTED: ::std::cell::Cell<Option<$fault>> = const { ::std::cell::Cell::new(None) };
        }

        /// Plants a fault in all that this thread works on, or takes it out.
        #[cfg($when)]
        pub fn plant(fault: Option<$fault>) {
            PLANTED.set(fault);
        }

        /// Whether this fault is planted.
        #[cfg($when)]
        #[inline(always)]
        pub(crate) fn planted(fault: $fault) -> bool {
            PLANTED.get() == Some(fault)
        }

        /// Nothing is planted.
        #[cfg(not($when))]
        #[inline(always)]
        pub(crate) fn planted(_: $fault) -> bool {
            false
        }
    };
}

/// The same for faults that concern all threads of the process. They are numbered from 1 on (`repr(u8)`).
#[macro_export]
macro_rules! faults_of_processes {
    ($when:meta, $fault:ty) => {
        #[cfg($when)]
        static PLANTED: ::std::sync::atomic::AtomicU8 = ::std::sync::atomic::AtomicU8::new(0);

        /// Plants a fault in the whole process, or takes it out.
        #[cfg($when)]
        pub fn plant(fault: Option<$fault>) {
            let number = fault.map_or(0, |fault| fault as u8);
            PLANTED.store(number, ::std::sync::atomic::Ordering::SeqCst);
        }

        /// Whether this fault is planted.
        #[cfg($when)]
        #[inline(always)]
        pub(crate) fn planted(fault: $fault) -> bool {
            PLANTED.load(::std::sync::atomic::Ordering::Relaxed) == fault as u8
        }

        /// Nothing is planted.
        #[cfg(not($when))]
        #[inline(always)]
        pub(crate) fn planted(_: $fault) -> bool {
            false
        }
    };
}

/// `hook` and `reached` for points of this type, where the condition holds; otherwise `reached` alone, which does
/// nothing.
#[macro_export]
macro_rules! points_of_threads {
    ($when:meta, $point:ty) => {
        /// What a test does at a point.
        #[cfg($when)]
        pub type Hook = $crate::planting::Hook<$point>;

        #[cfg($when)]
        ::std::thread_local! {
            static HOOKS: $crate::planting::Hooks<$point> = const { $crate::planting::Hooks::none() };
        }

        /// Lets `hook` run at every point that this thread reaches, except inside of itself.
        #[cfg($when)]
        pub fn hook(hook: Option<Hook>) {
            HOOKS.with(|hooks| hooks.set(hook));
        }

        /// Lets a test step in.
        #[cfg($when)]
        #[inline(always)]
        pub(crate) fn reached(point: $point) {
            HOOKS.with(|hooks| hooks.reached(point));
        }

        /// No test steps in.
        #[cfg(not($when))]
        #[inline(always)]
        pub(crate) fn reached(_: $point) {}
    };
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    mod of_process {
        #[derive(Clone, Copy)]
        #[repr(u8)]
        pub enum Fault {
            One = 1,
            Two,
        }
        faults_of_processes!(test, Fault);
    }

    mod of_thread {
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub enum Fault {
            One,
            Two,
        }
        faults_of_threads!(test, Fault);
        points_of_threads!(test, u8);
    }

    #[test]
    fn one_fault_is_planted_at_a_time() {
        of_process::plant(Some(of_process::Fault::Two));
        of_thread::plant(Some(of_thread::Fault::Two));
        let of_process = std::thread::spawn(|| {
            let two = of_process::planted(of_process::Fault::Two);
            (two, of_thread::planted(of_thread::Fault::Two))
        });
        assert_eq!(of_process.join().unwrap(), (true, false));
        assert!(!of_process::planted(of_process::Fault::One));
        assert!(of_thread::planted(of_thread::Fault::Two));
        assert!(!of_thread::planted(of_thread::Fault::One));
        of_process::plant(None);
        of_thread::plant(None);
        assert!(!of_process::planted(of_process::Fault::Two));
        assert!(!of_thread::planted(of_thread::Fault::Two));
    }

    #[test]
    fn a_hook_does_not_run_inside_of_itself() {
        let seen = Rc::new(Cell::new(0));
        let its = seen.clone();
        of_thread::hook(Some(Box::new(move |point| {
            its.set(its.get() + u32::from(point));
            of_thread::reached(point);
        })));
        of_thread::reached(1);
        of_thread::reached(2);
        of_thread::hook(None);
        of_thread::reached(4);
        assert_eq!(seen.get(), 3);
    }
}
