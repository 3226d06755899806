//! What pages of experiments share: stored results, and a page that needs neither network nor scripts.
#![forbid(unsafe_code)]

pub mod html;
pub mod results;
