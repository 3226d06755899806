//! What the nodes of a radix tree hold.

use super::nodes::{HELD, Head};

#[test]
fn joined_heads_are_those_of_joined_bytes() {
    let bytes: Vec<u8> = (1..40).collect();
    for n in 0..20 {
        for m in 0..15 {
            let joined = Head::of(&bytes[..n]).join(bytes[n], &Head::of(&bytes[n + 1..n + 1 + m]));
            let whole = Head::of(&bytes[..n + 1 + m]);
            assert_eq!(
                (joined.len, joined.bytes),
                (whole.len, whole.bytes),
                "{n} {m}"
            );
            assert_eq!(joined.held().len(), HELD.min(n + 1 + m));
        }
    }
}
