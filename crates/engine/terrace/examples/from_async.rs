//! How an async program uses Terrace, whose calls block: each goes to the runtime's threads for
//! blocking work.
//!
//! `cargo run -p terrace --example from_async`

use terrace::{Database, Options, Result, Tree};

/// Runs a call where it may block.
async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(call).await {
        Ok(result) => result,
        // The call panicked; that goes on here.
        Err(e) => std::panic::resume_unwind(e.into_panic()),
    }
}

/// A tree as an async program wants it. Handles are cheap to clone, so each call takes one along.
#[derive(Clone)]
struct AsyncTree(Tree);

impl AsyncTree {
    async fn get(&self, key: Vec<u8>) -> Result<Option<Vec<u8>>> {
        let tree = self.0.clone();
        blocking(move || tree.get(key)).await
    }

    async fn put(&self, key: Vec<u8>, value: Vec<u8>) -> Result<()> {
        let tree = self.0.clone();
        blocking(move || tree.put(key, value)).await
    }
}

async fn run() -> Result<()> {
    let path = std::env::temp_dir().join(format!("terrace-example-{}", std::process::id()));
    let directory = path.clone();
    let db = blocking(move || Database::open(directory, Options::new().memory(16 << 20))).await?;
    let users = AsyncTree(db.tree("users")?);
    let tasks: Vec<_> = (0..100u32)
        .map(|i| {
            let users = users.clone();
            tokio::spawn(async move {
                users
                    .put(format!("user {i}").into_bytes(), i.to_be_bytes().to_vec())
                    .await
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("a task that does not panic")?;
    }
    let found = users.get(b"user 42".to_vec()).await?;
    println!("user 42: {found:?}");
    assert_eq!(found, Some(42u32.to_be_bytes().to_vec()));
    drop(users);
    blocking(move || db.close()).await?;
    let _ = std::fs::remove_dir_all(path);
    Ok(())
}

fn main() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build();
    runtime.expect("a runtime").block_on(run())
}
