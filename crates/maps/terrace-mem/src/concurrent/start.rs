//! What runs beside a map: the thread that merges, and the one that moves segments.

#[cfg(feature = "place")]
use super::Placing;
use super::merge;
use super::shared::Shared;
use crate::error::OptionsError;
use crate::family::Family;
use crate::options::{Merging, Options};
use crate::sync::{Arc, thread};

/// The background thread of a map.
pub type Worker = thread::JoinHandle<()>;

impl<F: Family, V: Clone + Send + Sync + 'static> Shared<F, V> {
    /// An empty map, and its background thread if it is to have one.
    pub fn start(options: Options) -> Result<(Arc<Self>, Option<Worker>), OptionsError> {
        let background = options.merging == Merging::Incremental;
        let shared = Arc::new(Shared::new(options)?);
        let worker = background.then(|| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || merge::work(&shared))
        });
        #[cfg(feature = "place")]
        Placing::start(&shared);
        Ok((shared, worker))
    }
}
