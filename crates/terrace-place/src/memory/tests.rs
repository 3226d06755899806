//! Memories of this machine: what is granted is there, what is refused is an error.

use super::*;

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
