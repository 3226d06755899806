//! What crosses the border in bulk: a batch, keys, a window, a commit. What is taken apart lies within the bytes; a
//! batch that is put together again is the same batch.
#![no_main]

use terrace_ffi::encoding::{self, BatchWriter, To};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = encoding::keys(bytes);
    let mut at = 4;
    while let Some((key, value, next)) = encoding::record_at(bytes, at) {
        assert!(next <= bytes.len() && next - at == 8 + key.len() + value.len());
        at = next;
    }
    let mut at = 0;
    while let Some((_, next)) = encoding::change_at(bytes, at) {
        assert!(next <= bytes.len() && next > at);
        at = next;
    }
    let Ok(ops) = encoding::batch(bytes) else {
        return;
    };
    let mut writer = BatchWriter::default();
    for op in &ops {
        match &op.to {
            To::Put(value) => writer.put(op.map, op.key, value),
            To::PutUntil(value, ms) => writer.put_until(op.map, op.key, value, *ms),
            To::Delete => writer.delete(op.map, op.key),
            To::Merge(merge) => writer
                .merge(op.map, op.key, merge)
                .expect("a merge that was read"),
            other => unreachable!("{other:?}"),
        }
    }
    let again = writer.finish();
    assert_eq!(
        encoding::batch(&again).expect("a batch that was written"),
        ops
    );
});
