//! Values that are one or two words: those of which a copy may lie in atomic cells.

use std::any::Any;

/// Words of the longest such value.
pub const MOST: usize = 2;

macro_rules! words {
    ($($kind:ty: $width:expr, $val:ident => $to:expr, $words:ident => $from:expr;)*) => {
        /// How many words a value of this type takes; none where it is of another kind.
        pub fn width<V: Any>() -> Option<usize> {
            let id = std::any::TypeId::of::<V>();
            $(if id == std::any::TypeId::of::<$kind>() {
                return Some($width);
            })*
            None
        }

        /// The words of a value.
        #[inline]
        pub fn pack<V: Any>(val: &V) -> Option<[u64; MOST]> {
            let val: &dyn Any = val;
            $(if let Some($val) = val.downcast_ref::<$kind>() {
                return Some($to);
            })*
            None
        }

        /// The value that has these words.
        #[inline]
        pub fn unpack<V: Any>(words: [u64; MOST]) -> Option<V> {
            let mut made: Option<V> = None;
            let into: &mut dyn Any = &mut made;
            $(if let Some(into) = into.downcast_mut::<Option<$kind>>() {
                let $words = words;
                *into = $from;
                return made;
            })*
            None
        }
    };
}

fn wide(n: u128) -> [u64; MOST] {
    [n as u64, (n >> 64) as u64]
}

fn narrow([low, high]: [u64; MOST]) -> u128 {
    u128::from(low) | u128::from(high) << 64
}

fn of_bytes<const N: usize>(bytes: &[u8; N]) -> [u64; MOST] {
    let mut all = [0; 16];
    all[..N].copy_from_slice(bytes);
    wide(u128::from_le_bytes(all))
}

fn to_bytes<const N: usize>(words: [u64; MOST]) -> Option<[u8; N]> {
    narrow(words).to_le_bytes().first_chunk().copied()
}

words! {
    (): 0, _unit => [0, 0], _words => Some(());
    u64: 1, n => [*n, 0], words => Some(words[0]);
    u32: 1, n => [u64::from(*n), 0], words => Some(words[0] as u32);
    u16: 1, n => [u64::from(*n), 0], words => Some(words[0] as u16);
    u8: 1, n => [u64::from(*n), 0], words => Some(words[0] as u8);
    usize: 1, n => [*n as u64, 0], words => Some(words[0] as usize);
    i64: 1, n => [*n as u64, 0], words => Some(words[0] as i64);
    i32: 1, n => [*n as u64, 0], words => Some(words[0] as i32);
    i16: 1, n => [*n as u64, 0], words => Some(words[0] as i16);
    i8: 1, n => [*n as u64, 0], words => Some(words[0] as i8);
    isize: 1, n => [*n as u64, 0], words => Some(words[0] as isize);
    f64: 1, n => [n.to_bits(), 0], words => Some(f64::from_bits(words[0]));
    f32: 1, n => [u64::from(n.to_bits()), 0], words => Some(f32::from_bits(words[0] as u32));
    bool: 1, b => [u64::from(*b), 0], words => Some(words[0] != 0);
    char: 1, c => [u64::from(*c), 0], words => char::from_u32(words[0] as u32);
    u128: 2, n => wide(*n), words => Some(narrow(words));
    i128: 2, n => wide(*n as u128), words => Some(narrow(words) as i128);
    [u8; 4]: 1, b => of_bytes(b), words => to_bytes(words);
    [u8; 8]: 1, b => of_bytes(b), words => to_bytes(words);
    [u8; 12]: 2, b => of_bytes(b), words => to_bytes(words);
    [u8; 16]: 2, b => of_bytes(b), words => to_bytes(words);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Debug;

    fn back<V: Any + PartialEq + Debug + Copy>(vals: &[V]) {
        for val in vals {
            let words = pack(val).unwrap();
            assert!(width::<V>().unwrap() == 2 || words[1] == 0);
            assert_eq!(unpack(words), Some(*val));
        }
    }

    #[test]
    fn values_of_words_come_back() {
        back(&[()]);
        back(&[0u64, u64::MAX]);
        back(&[u32::MAX]);
        back(&[u16::MAX]);
        back(&[u8::MAX]);
        back(&[usize::MAX]);
        back(&[i64::MIN, -1]);
        back(&[i32::MIN, -1]);
        back(&[i16::MIN, -1]);
        back(&[i8::MIN, -1]);
        back(&[isize::MIN]);
        back(&[-0.5f64, f64::MAX]);
        back(&[-0.5f32, f32::MAX]);
        back(&[true, false]);
        back(&['a', char::MAX]);
        back(&[u128::MAX, 1 << 64]);
        back(&[i128::MIN, -1]);
        back(&[[1u8, 2, 3, 255]]);
        back(&[[7u8; 8]]);
        back(&[[7u8; 12]]);
        back(&[[7u8; 16]]);
    }

    #[test]
    fn others_have_none() {
        assert_eq!((width::<String>(), width::<Box<u64>>()), (None, None));
        assert_eq!(pack(&String::new()), None);
        assert_eq!(unpack::<String>([0; 2]), None);
    }
}
