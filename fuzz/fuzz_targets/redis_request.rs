//! Requests of Redis' protocol: any bytes, in any pieces, are commands, more to come, or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use terrace_serve::proto::parse::{Limits, Parsed, Parser};

/// Longest argument here.
const LONGEST: usize = 1 << 16;

fn commands(pieces: &[&[u8]]) -> (Vec<Vec<Vec<u8>>>, bool) {
    let (mut all, mut at, mut parser) = (Vec::new(), 0, Parser::default());
    let mut found = Vec::new();
    for piece in pieces {
        all.extend_from_slice(piece);
        loop {
            match parser.parse(&mut all[at..], &Limits::new(LONGEST)) {
                Ok(Parsed::More) => break,
                Ok(Parsed::Command(length)) => {
                    assert!(length > 0 && at + length <= all.len());
                    let part = |(a, b): &(u32, u32)| all[at + *a as usize..at + *b as usize].to_vec();
                    found.push(parser.spans.iter().map(part).collect());
                    at += length;
                }
                Err(_) => return (found, true),
            }
        }
    }
    (found, false)
}

fuzz_target!(|data: &[u8]| {
    let Some((&cut, data)) = data.split_first() else {
        return;
    };
    let middle = data.len() * usize::from(cut) / 256;
    let whole = commands(&[data]);
    let parts = commands(&[&data[..middle], &data[middle..]]);
    assert_eq!(whole, parts, "it depends on how the bytes come");
});
