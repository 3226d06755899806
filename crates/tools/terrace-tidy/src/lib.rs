//! Tests only: what must hold of the code itself. Layers point downwards, unsafe code stays where it is allowed and says
//! why it holds, files are short, open with their job and form no new circles, nor do folders, documents point to what
//! exists, and decisions begin with what holds today.
//!
//! Every check takes a [`Tree`] and answers with complaints, so that a test can plant a violation
//! and see it found.

#![forbid(unsafe_code)]

mod calls;
mod circles;
mod components;
mod decisions;
mod documents;
mod files;
mod guide;
mod known_circles;
mod layers;
mod methods;
mod module;
mod modules;
mod quoted;
mod tree;
mod unsafety;

pub use circles::{circles, circles_of_folders, circles_of_methods};
pub use decisions::{short_decisions, what_holds_today};
pub use documents::{forbidden_words, links, tests_of_the_promises, tour_of_the_readme};
pub use files::{length, map_length, opening_line};
pub use guide::{pages_of_the_book, programs_of_the_guide, short_pages};
pub use layers::layers;
pub use quoted::quoted_paths;
pub use tree::{SourceFile, Tree};
pub use unsafety::{unsafe_files, unsafe_forbidden, unsafe_reasons};

/// What is wrong, with file and line where there is one; of a circle also who needs whom in it.
pub type Complaints = Vec<String>;

/// A check by its name.
pub type Check = (&'static str, fn(&Tree) -> Complaints);

/// All checks.
pub const CHECKS: &[Check] = &[
    ("layers", layers),
    (
        "unsafe code is forbidden by every other crate",
        unsafe_forbidden,
    ),
    ("unsafe code is in files where it is allowed", unsafe_files),
    ("unsafe code says why it holds", unsafe_reasons),
    ("length of files", length),
    ("length of the map", map_length),
    ("opening lines", opening_line),
    ("circles of files", circles),
    ("circles of files by methods", circles_of_methods),
    ("circles of folders", circles_of_folders),
    ("words that do not belong here", forbidden_words),
    ("links of documents", links),
    ("paths that documents quote", quoted_paths),
    ("the README's tour is the example's", tour_of_the_readme),
    ("the promises name tests that exist", tests_of_the_promises),
    ("pages of the guide are short", short_pages),
    ("pages of the guide are in the book", pages_of_the_book),
    ("programs of the guide are run", programs_of_the_guide),
    ("paragraphs of the decisions are short", short_decisions),
    ("decisions begin with what holds today", what_holds_today),
];
