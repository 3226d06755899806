//! What a crash leaves, at every store of scripts, in every image that memory may hold; and the faults.
#![cfg_attr(feature = "shuttle", allow(dead_code))]

#[path = "crash"]
mod crash {
    pub mod enumerate;
    #[cfg(not(feature = "shuttle"))]
    pub mod faults;
    #[cfg(not(feature = "shuttle"))]
    pub mod lives;
    #[cfg(not(feature = "shuttle"))]
    pub mod scripts;
    pub mod threads;
    #[cfg(not(feature = "shuttle"))]
    pub mod unprotected;
}
