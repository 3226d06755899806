//! The simulated disk and the checkers of histories keep their promises.

mod disk;
mod hooked;
mod linearizable;
