//! Blocks that several transactions bring back.

use super::*;

#[test]
fn a_block_that_two_bring_back_is_free_once() {
    let dir = tempfile::tempdir().unwrap();
    let way = Way {
        whole_block: true,
        ..Way::new(10 << 20)
    };
    let schema = crate::voter::schema();
    let table = (0..schema.len()).find(|&n| !schema[n].resident).unwrap();
    let engine = AntiCache::open(dir.path(), way, schema, Maps::BTree, 1).unwrap();
    let keys: Vec<Key> = (0..100u64).map(u64::to_be_bytes).collect();

    let each = |f: &mut dyn FnMut(&mut dyn Txn, &Key) -> Result<(), Stop>| {
        for key in &keys {
            let ended = engine.transact(&[0], &mut |t| f(t, key)).unwrap();
            assert!(matches!(ended, Ended::Committed));
        }
    };
    each(&mut |t, key| t.put(table, key, &[7; 4000]));
    let evict = || {
        let block = engine.store.transact_in(&[0], |t| engine.evict_block(t, 0));
        assert!(block.is_ok_and(|block| block.is_some()));
    };
    evict();
    // Both have met the same tombstone.
    for _ in 0..2 {
        engine.bring(&[(0, (0, 3))]).unwrap();
    }
    assert_eq!(lock(&engine.parts[0]).free_blocks, [0]);
    evict();
    evict();
    each(&mut |t, key| {
        assert_eq!(t.get(table, key)?, Some(vec![7; 4000]));
        Ok(())
    });
}
