//! What the linker is told of the shared library: its name, with the number of its interface. That it shows nothing
//! but the exported functions is the compiler's doing, by a version script of its own; a test looks.

/// Raised when something that is there changes in a way that compiled programs would notice.
const INTERFACE: u32 = 0;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libterrace.so.{INTERFACE}");
    }
}
