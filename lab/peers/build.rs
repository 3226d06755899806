//! RocksDB is the system's: `librocksdb-dev` of Debian.

fn main() {
    println!("cargo::rustc-link-lib=dylib=rocksdb");
    println!("cargo::rerun-if-changed=build.rs");
}
