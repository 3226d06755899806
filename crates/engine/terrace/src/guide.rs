//! The Rust programs of the guide (`docs/guide`), compiled and run as documentation tests, and nothing else.
//! That each page with such a program is here is checked by `terrace-tidy`.

#[doc = include_str!("../../../../docs/guide/accidents.md")]
mod accidents {}
#[doc = include_str!("../../../../docs/guide/backups.md")]
mod backups {}
#[doc = include_str!("../../../../docs/guide/rust.md")]
mod rust {}
#[doc = include_str!("../../../../docs/guide/structure.md")]
mod structure {}
#[doc = include_str!("../../../../docs/guide/watching.md")]
mod watching {}

#[doc = include_str!("../../../../docs/guide/recipes/cache.md")]
mod cache {}
#[doc = include_str!("../../../../docs/guide/recipes/counters.md")]
mod counters {}
#[doc = include_str!("../../../../docs/guide/recipes/events.md")]
mod events {}
#[doc = include_str!("../../../../docs/guide/recipes/lookups.md")]
mod lookups {}
#[doc = include_str!("../../../../docs/guide/recipes/moving.md")]
mod moving {}
#[doc = include_str!("../../../../docs/guide/recipes/queue.md")]
mod queue {}
#[doc = include_str!("../../../../docs/guide/recipes/sessions.md")]
mod sessions {}
