//! Opening a database, with all that goes on in it by itself: recovery first, then the threads.

use std::sync::Arc;

use terrace_base::Result;
use terrace_base::disk::Disk;

use crate::core::Core;
use crate::handle::shared::Handle;
use crate::options::Options;
use crate::recover::open::Behind;

/// Opens the database and starts its threads; see [`Core::open_with`].
pub fn open_with(
    disk: Arc<dyn Disk>,
    options: Options,
    behind: Option<Behind<'_>>,
) -> Result<Handle> {
    let handle = Handle::new(Core::open_with(disk, options, behind)?);
    let core = handle.core();
    if !core.options().foreground {
        core.demotion().start()?;
        handle.start("terrace-checkpointer", |core| core.run_checkpoints())?;
        handle.start("terrace-log", |core| {
            core.log().run_background();
            if let Some(e) = core.log().poisoned() {
                core.failed(e);
            }
        })?;
        handle.start("terrace-drops", |core| core.run_drops())?;
        handle.start("terrace-rounds", |core| core.run_rounds())?;
        if core.has_hot_in_memory() {
            handle.start("terrace-warm-up", |core| core.run_warm_up())?;
        }
    }
    Ok(handle)
}
