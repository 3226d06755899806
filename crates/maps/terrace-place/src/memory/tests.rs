//! Memories of this machine: what is granted is there, what is refused is an error.

use super::*;
use crate::error::PlacementError;

fn fill_and_read(source: &Source) {
    let region = Region::reserve(64 * PAGE).unwrap();
    let place = region.commit(8 * PAGE, 4 * PAGE, source).unwrap();
    assert!(region.holds_bytes(8 * PAGE, 4 * PAGE));
    region.release(8 * PAGE, 4 * PAGE, source, place);
    region.commit(8 * PAGE, 4 * PAGE, source).unwrap();
}

#[test]
fn heap_memory_is_there() {
    fill_and_read(&Source::open(&Memory::Heap).unwrap());
}

#[cfg(all(target_os = "linux", not(miri)))]
#[test]
fn memory_of_a_memfd_and_of_a_file_is_there() {
    fill_and_read(&Source::open(&Memory::Memfd { huge: false }).unwrap());
    let path = std::env::temp_dir().join(format!("terrace-place-{}", std::process::id()));
    fill_and_read(&Source::open(&Memory::File(path.clone())).unwrap());
    assert!(!path.exists());
}

#[cfg(all(target_os = "linux", not(miri)))]
#[test]
fn a_device_that_is_none_and_a_node_that_is_none_are_errors() {
    let error = Source::open(&Memory::Dax("/dev/dax99.9".into())).unwrap_err();
    assert!(matches!(error, PlacementError::Device { .. }), "{error}");
    let error = Source::open(&Memory::Node(777)).unwrap_err();
    assert!(
        matches!(
            error,
            PlacementError::NodeNotAllowed { node: 777 } | PlacementError::BindRefused { .. }
        ),
        "{error}"
    );
}

#[cfg(all(target_os = "linux", not(miri)))]
#[test]
fn memory_of_this_node_lies_on_it_or_the_refusal_says_why() {
    match Source::open(&Memory::Node(0)) {
        Ok(source) => {
            let region = Region::reserve(16 * PAGE).unwrap();
            match region.commit(0, 16 * PAGE, &source) {
                Ok(_) => assert!(node_of(region.base()).is_none_or(|node| node == 0)),
                Err(error) => assert!(error.to_string().contains("node 0"), "{error}"),
            }
        }
        // A kernel without NUMA, or a container that refuses the calls.
        Err(error) => assert!(
            matches!(error, PlacementError::BindRefused { node: 0, .. }),
            "{error}"
        ),
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
mod shared {
    use super::super::shared::Shared;
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_full_device_is_an_error_that_names_it_and_pieces_of_any_length_come_again() {
        let path = std::env::temp_dir().join(format!("terrace-dax-{}", std::process::id()));
        let file = std::fs::File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .unwrap();
        std::fs::remove_file(&path).unwrap();
        file.set_len(16 * PAGE as u64).unwrap();
        let shared = Shared::new(file, &path, PAGE, Some(16 * PAGE as u64));
        let at: Vec<u64> = (0..8).map(|_| shared.take(2 * PAGE).unwrap()).collect();
        let full = shared.take(PAGE).unwrap_err();
        assert!(
            matches!(full, PlacementError::DeviceFull { bytes, .. } if bytes == 16 * PAGE as u64)
                && full.to_string().contains("terrace-dax"),
            "{full}"
        );
        // Neighbours are one piece again, whoever comes back first, and a piece is divided.
        for i in [3, 1, 2] {
            shared.give(at[i], 2 * PAGE);
        }
        assert_eq!(shared.take(6 * PAGE).unwrap(), at[1]);
        shared.give(at[1], 6 * PAGE);
        let mut small: Vec<u64> = (0..6).map(|_| shared.take(PAGE).unwrap()).collect();
        small.sort_unstable();
        assert!(
            small.is_sorted_by(|a, b| a + PAGE as u64 == *b),
            "{small:?}"
        );
        assert!(shared.take(PAGE).is_err());
        // What lies at the end is as if it had never been taken.
        shared.give(at[7], 2 * PAGE);
        shared.give(at[6], 2 * PAGE);
        assert_eq!(shared.take(4 * PAGE).unwrap(), at[6]);
    }

    #[test]
    fn a_piece_of_a_file_has_its_blocks_before_it_is_touched() {
        let path = std::env::temp_dir().join(format!("terrace-blocks-{}", std::process::id()));
        for shared in [Shared::file(&path).unwrap(), Shared::memfd(false).unwrap()] {
            let held = || shared.file_ref().metadata().unwrap().blocks() * 512;
            let pieces: Vec<u64> = (1..=3)
                .map(|i| {
                    let piece = shared.take(64 * PAGE).unwrap();
                    assert!(held() >= i * 64 * PAGE as u64, "{} bytes of {i}", held());
                    piece
                })
                .collect();
            // One that comes again, too.
            shared.give(pieces[1], 64 * PAGE);
            assert!(held() < 3 * 64 * PAGE as u64);
            assert_eq!(shared.take(64 * PAGE).unwrap(), pieces[1]);
            assert!(held() >= 3 * 64 * PAGE as u64);
        }
    }

    #[test]
    fn what_is_given_back_is_the_systems_again() {
        let shared = Shared::memfd(false).unwrap();
        let source = Source::Shared(std::sync::Arc::new(shared));
        let region = Region::reserve(256 * PAGE).unwrap();
        let held = |source: &Source| match source {
            Source::Shared(shared) => shared.file_ref().metadata().unwrap().blocks() * 512,
            _ => 0,
        };
        let places: Vec<u64> = (0..2)
            .map(|i| region.commit(i * 128 * PAGE, 128 * PAGE, &source).unwrap())
            .collect();
        assert!(held(&source) >= 256 * PAGE as u64);
        region.release(0, 128 * PAGE, &source, places[0]);
        assert!(held(&source) <= 128 * PAGE as u64, "{}", held(&source));
        // It can be had again, and is zero.
        let place = region.commit(0, 128 * PAGE, &source).unwrap();
        assert_eq!(place, places[0]);
        assert!(region.holds_bytes(0, 128 * PAGE));
    }
}
