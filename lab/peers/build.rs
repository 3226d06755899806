//! RocksDB is the system's: `librocksdb-dev` of Debian. F2, with the feature of that name, is compiled from the
//! checkout of microsoft/FASTER that `FASTER_DIR` names; Debian: libaio-dev, libtbb-dev, uuid-dev.

fn main() {
    println!("cargo::rustc-link-lib=dylib=rocksdb");
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "f2")]
    f2::compile();
}

#[cfg(feature = "f2")]
mod f2 {
    use std::path::{Path, PathBuf};
    use std::{env, fs};

    /// Constants that are changed so that F2 fits a small memory: the file, what stands there once, what stands
    /// there then. Pages of its logs have 32 MiB (bits of an address' offset; 17 are the fewest that compile), of
    /// which each log keeps at least six. Overflow buckets come in pages of 2^20, which are written when they are
    /// made. Logs on the disk must have two pages at least.
    const CHANGES: [(&str, &str, &str); 4] = [
        ("core/address.h", "kOffsetBits = 25;", "kOffsetBits = 17;"),
        (
            "core/malloc_fixed_page_size.h",
            "kOffsetBits = 20;",
            "kOffsetBits = 10;",
        ),
        (
            "core/f2.h",
            "hot_store.hlog_size_budget < 64_MiB",
            "hot_store.hlog_size_budget < 2 * (uint64_t{Address::kMaxOffset} + 1)",
        ),
        (
            "core/f2.h",
            "cold_store.hlog_size_budget < 64_MiB",
            "cold_store.hlog_size_budget < 2 * (uint64_t{Address::kMaxOffset} + 1)",
        ),
    ];

    /// Its files that are compiled.
    const SOURCES: [&str; 4] = [
        "core/address.cc",
        "core/lss_allocator.cc",
        "core/thread.cc",
        "environment/file_linux.cc",
    ];

    pub fn compile() {
        println!("cargo::rerun-if-env-changed=FASTER_DIR");
        println!("cargo::rerun-if-changed=src/stores/f2.cpp");
        let checkout = env::var_os("FASTER_DIR")
            .expect("the feature f2 needs FASTER_DIR, a checkout of github.com/microsoft/FASTER");
        let from = Path::new(&checkout).join("cc/src");
        let to = PathBuf::from(env::var_os("OUT_DIR").unwrap()).join("faster");
        copy(&from, &to);
        for (file, old, new) in CHANGES {
            let file = to.join(file);
            let text = fs::read_to_string(&file).unwrap();
            assert_eq!(text.matches(old).count(), 1, "{}: {old}", file.display());
            fs::write(&file, text.replace(old, new)).unwrap();
        }
        cc::Build::new()
            .cpp(true)
            .std("c++17")
            .opt_level(3)
            .define("NDEBUG", None)
            .warnings(false)
            .include(&to)
            .file("src/stores/f2.cpp")
            .files(SOURCES.map(|file| to.join(file)))
            .compile("f2");
        for library in ["aio", "uuid", "tbb"] {
            println!("cargo::rustc-link-lib=dylib={library}");
        }
    }

    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        let entries = fs::read_dir(from);
        for entry in entries.unwrap_or_else(|error| panic!("{}: {error}", from.display())) {
            let entry = entry.unwrap();
            let (from, to) = (entry.path(), to.join(entry.file_name()));
            match from.is_dir() {
                true => copy(&from, &to),
                false => fs::write(&to, fs::read(&from).unwrap()).unwrap(),
            }
        }
    }
}
