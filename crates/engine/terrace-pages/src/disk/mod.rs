//! Pages on disk: the file, free space, numbers and places of pages, writing them.

pub(crate) mod allocate;
pub(crate) mod data_file;
pub(crate) mod places;
pub(crate) mod space;
pub(crate) mod write;
