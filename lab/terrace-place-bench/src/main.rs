//! `place-bench`: what placements of a tree's nodes in fast and slow memory are worth.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    terrace_place_bench::main_of(std::env::args_os())
}
