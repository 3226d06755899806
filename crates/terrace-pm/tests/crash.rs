//! What a crash leaves, at every store of scripts, in every image that memory may hold; and the faults.

#[path = "crash"]
mod crash {
    pub mod enumerate;
    pub mod faults;
    pub mod lives;
    pub mod scripts;
    pub mod unprotected;
}
