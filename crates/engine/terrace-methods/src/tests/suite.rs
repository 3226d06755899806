//! The conformance suite, for every access method, cold and hot.

use terrace_access::conformance::{Effort, run};
use terrace_pages::Class;

use super::fixture::{Made, Method, QUICK, heaps, tables, trees};

fn passes<M: Method>(fixture: &Made<M>, page_bytes: &'static [usize]) {
    let effort = Effort {
        page_sizes: page_bytes,
        ..QUICK
    };
    if let Err(failure) = run(fixture, effort) {
        panic!("{}", failure.0);
    }
}

#[test]
fn a_cold_tree_with_small_pages_conforms() {
    passes(&trees(Class::Cold), &[4096, 8192]);
}

#[test]
fn a_cold_tree_with_large_pages_conforms() {
    passes(&trees(Class::Cold), &[16384, 65536]);
}

#[test]
fn a_hot_tree_with_small_pages_conforms() {
    passes(&trees(Class::Hot), &[4096, 8192]);
}

#[test]
fn a_hot_tree_with_large_pages_conforms() {
    passes(&trees(Class::Hot), &[16384, 65536]);
}

#[test]
fn a_cold_hash_table_with_small_pages_conforms() {
    passes(&tables(Class::Cold), &[4096, 8192]);
}

#[test]
fn a_cold_hash_table_with_large_pages_conforms() {
    passes(&tables(Class::Cold), &[16384, 65536]);
}

#[test]
fn a_hot_hash_table_with_small_pages_conforms() {
    passes(&tables(Class::Hot), &[4096, 8192]);
}

#[test]
fn a_hot_hash_table_with_large_pages_conforms() {
    passes(&tables(Class::Hot), &[16384, 65536]);
}

#[test]
fn a_cold_heap_with_small_pages_conforms() {
    passes(&heaps(Class::Cold), &[4096, 8192]);
}

#[test]
fn a_cold_heap_with_large_pages_conforms() {
    passes(&heaps(Class::Cold), &[16384, 65536]);
}

#[test]
fn a_hot_heap_with_small_pages_conforms() {
    passes(&heaps(Class::Hot), &[4096, 8192]);
}

#[test]
fn a_hot_heap_with_large_pages_conforms() {
    passes(&heaps(Class::Hot), &[16384, 65536]);
}

/// The long run: `cargo test -p terrace-methods -- --ignored`, with `TERRACE_SEEDS=first..last` for
/// others than the usual seeds.
#[test]
#[ignore = "takes minutes"]
fn all_conform_with_many_seeds() {
    let seeds = std::env::var("TERRACE_SEEDS").unwrap_or_default();
    let (first, last) = seeds.split_once("..").unwrap_or(("2", "6"));
    for seed in first.parse().unwrap_or(2)..last.parse().unwrap_or(6) {
        for tier in [Class::Cold, Class::Hot] {
            let effort = Effort {
                seed,
                ..Effort::FULL
            };
            let checks = [
                run(&trees(tier), effort),
                run(&tables(tier), effort),
                run(&heaps(tier), effort),
            ];
            for checked in checks {
                if let Err(failure) = checked {
                    panic!("seed {seed}, {tier:?}: {}", failure.0);
                }
            }
        }
    }
}
