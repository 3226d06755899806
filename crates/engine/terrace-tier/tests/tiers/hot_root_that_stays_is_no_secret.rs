//! The page of a hot tier whose making failed goes again; if it cannot, no checkpoint may have it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::*;
use terrace_base::Error;
use terrace_pages::{Pace, Retry};
use terrace_sim::SimDisk;
use terrace_tier::{Change, Structure, TierContext, TierOptions};

/// Makes a hot tier whose root cannot be noted, and which is torn before it goes, if `torn`.
fn fails_to_make(context: &Arc<TierContext>, torn: bool) -> Error {
    let store = context.store.clone();
    let is_asked = Arc::new(AtomicBool::new(false));
    let asked = is_asked.clone();
    let options = TierOptions {
        on_hot_root: Arc::new(move |door, roots| {
            asked.store(true, Ordering::Relaxed);
            if torn && let Some(root) = roots.hot {
                let mut page = store.exclusive(root, door)?;
                page.fill(16, 100)?.fill(0xEE);
            }
            Err(Retry::Fail(Error::invalid("it cannot be noted")))
        }),
        ..TierOptions::default()
    };
    let tree = two_tiers::<BTree>(context, &options);
    let before = context.store.live_pages();
    let written = tree.write(b"key", Change::Put(b"value"), None, &mut || ());
    assert!(is_asked.load(Ordering::Relaxed));
    assert_eq!(context.store.live_pages(), before + u64::from(torn));
    written.unwrap_err()
}

#[test]
fn a_hot_root_that_cannot_be_noted_goes_again_or_no_checkpoint_has_it() {
    for torn in [false, true] {
        let disk = SimDisk::new(1);
        let context = new_context(&disk, 400 << 10, 4096);
        let told = fails_to_make(&context, torn);
        assert_eq!(matches!(told, Error::Poisoned { .. }), torn, "{told}");
        let made = context.store.checkpoint(Pace::Fast, &mut cut);
        assert_eq!(made.is_err(), torn, "{made:?}");
    }
}
