//! The real disk: files of one directory, opened for direct I/O, under an exclusive lock.
