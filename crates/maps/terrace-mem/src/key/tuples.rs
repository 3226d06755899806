//! Tuples as keys: the parts one after the other, each so that it cannot run into the next.

use super::index::IndexKey;
use crate::family::ByteFamily;
use alloc::string::String;
use alloc::vec::Vec;
use arrayvec::ArrayVec;

/// A type that can be one part of a tuple key.
///
/// The encoded form of a part must be prefix-free: no encoded part is a prefix of another one.
pub trait KeyPart: Sized {
    /// Appends the order-preserving form of the part.
    fn write(&self, out: &mut Scratch);
    /// Reads a part that [`KeyPart::write`] wrote and moves `from` past it.
    fn read(from: &mut &[u8]) -> Self;
}

/// Where an encoded tuple is put together: on the stack while it is short.
#[derive(Default)]
pub struct Scratch {
    short: ArrayVec<u8, 64>,
    long: Vec<u8>,
}

impl Scratch {
    /// Appends bytes.
    pub fn put(&mut self, bytes: &[u8]) {
        if self.long.is_empty() && self.short.try_extend_from_slice(bytes).is_ok() {
            return;
        }
        if self.long.is_empty() {
            self.long.extend_from_slice(&self.short);
        }
        self.long.extend_from_slice(bytes);
    }

    fn bytes(&self) -> &[u8] {
        if self.long.is_empty() {
            &self.short
        } else {
            &self.long
        }
    }
}

/// Takes the first `N` bytes of `from`; missing ones read as zero.
fn take<const N: usize>(from: &mut &[u8]) -> [u8; N] {
    let n = N.min(from.len());
    let (head, tail) = from.split_at(n);
    *from = tail;
    <[u8; N]>::decode(head)
}

macro_rules! unsigned_part {
    ($($t:ty),*) => {$(
        impl KeyPart for $t {
            fn write(&self, out: &mut Scratch) {
                out.put(&self.to_be_bytes());
            }
            fn read(from: &mut &[u8]) -> Self {
                <$t>::from_be_bytes(take(from))
            }
        }
    )*};
}

macro_rules! signed_part {
    ($($t:ty),*) => {$(
        impl KeyPart for $t {
            fn write(&self, out: &mut Scratch) {
                out.put(&(*self ^ <$t>::MIN).to_be_bytes());
            }
            fn read(from: &mut &[u8]) -> Self {
                <$t>::from_be_bytes(take(from)) ^ <$t>::MIN
            }
        }
    )*};
}

unsigned_part!(u8, u16, u32, u64, u128, usize);
signed_part!(i8, i16, i32, i64, i128, isize);

impl KeyPart for bool {
    fn write(&self, out: &mut Scratch) {
        out.put(&[u8::from(*self)]);
    }
    fn read(from: &mut &[u8]) -> Self {
        take::<1>(from)[0] != 0
    }
}

impl KeyPart for char {
    fn write(&self, out: &mut Scratch) {
        u32::from(*self).write(out);
    }
    fn read(from: &mut &[u8]) -> Self {
        char::from_u32(u32::read(from)).unwrap_or(char::REPLACEMENT_CHARACTER)
    }
}

impl<const N: usize> KeyPart for [u8; N] {
    fn write(&self, out: &mut Scratch) {
        out.put(self);
    }
    fn read(from: &mut &[u8]) -> Self {
        take(from)
    }
}

/// A zero byte becomes `00 FF`, the end `00 00`: the end sorts before every continuation.
fn write_escaped(bytes: &[u8], out: &mut Scratch) {
    for (i, piece) in bytes.split(|&b| b == 0).enumerate() {
        if i > 0 {
            out.put(&[0, 0xFF]);
        }
        out.put(piece);
    }
    out.put(&[0, 0]);
}

fn read_escaped(from: &mut &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some((&b, rest)) = from.split_first() {
        *from = rest;
        if b == 0 {
            let mark = from.split_first();
            *from = mark.map_or(&[][..], |m| m.1);
            if mark.is_none_or(|m| *m.0 != 0xFF) {
                break;
            }
        }
        out.push(b);
    }
    out
}

impl KeyPart for Vec<u8> {
    fn write(&self, out: &mut Scratch) {
        write_escaped(self, out);
    }
    fn read(from: &mut &[u8]) -> Self {
        read_escaped(from)
    }
}

impl KeyPart for String {
    fn write(&self, out: &mut Scratch) {
        write_escaped(self.as_bytes(), out);
    }
    fn read(from: &mut &[u8]) -> Self {
        String::decode(&read_escaped(from))
    }
}

macro_rules! tuple {
    ($($name:ident $i:tt),*) => {
        impl<$($name: KeyPart),*> KeyPart for ($($name,)*) {
            fn write(&self, out: &mut Scratch) {
                $(self.$i.write(out);)*
            }
            fn read(from: &mut &[u8]) -> Self {
                ($($name::read(from),)*)
            }
        }
        impl<$($name: KeyPart),*> IndexKey for ($($name,)*) {
            type Family = ByteFamily;
            fn encode<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
                let mut out = Scratch::default();
                self.write(&mut out);
                f(out.bytes())
            }
            fn decode(mut encoded: &[u8]) -> Self {
                Self::read(&mut encoded)
            }
        }
    };
}

tuple!(A 0);
tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tuples_keep_their_order_and_come_back() {
        let texts = ["", "\0", "\0\0", "\0\u{1}", "a", "a\0", "a\0b", "ab", "b"];
        let mut keys = Vec::new();
        for a in texts {
            for n in [i32::MIN, -1, 0, 5] {
                for b in texts {
                    keys.push((a.to_string(), n, b.as_bytes().to_vec()));
                }
            }
        }
        for a in &keys {
            assert_eq!(&a.encode(<(String, i32, Vec<u8>)>::decode), a);
            for b in &keys {
                let order = a.encode(|x| b.encode(|y| x.cmp(y)));
                assert_eq!(order, a.cmp(b), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn a_long_tuple_leaves_the_stack() {
        let key = ("x".repeat(200), 7u64, "y".repeat(10));
        assert_eq!(key.encode(<(String, u64, String)>::decode), key);
        let key = ("x".repeat(60), ((1u8, 'c'), true), [9u8; 5]);
        assert_eq!(
            key.encode(<(String, ((u8, char), bool), [u8; 5])>::decode),
            key
        );
    }
}
