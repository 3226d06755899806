//! The system calls for memory of a node: binding, and asking where a page lies.
//!
//! Never `MPOL_BIND`: when a bound node is full, the kernel kills the process. Memory is asked for
//! with a preference, and where it came to lie is looked up afterwards.

#[cfg(all(target_os = "linux", not(miri)))]
mod calls {
    use crate::error::PlacementError;
    use std::io;

    /// Nodes that a mask has room for.
    const MOST_NODES: usize = 1024;
    const WORDS: usize = MOST_NODES / 64;
    /// Pages that are asked about at once, of one slab.
    const ASKED: usize = 16;

    const MPOL_PREFERRED: libc::c_int = 1;
    const MPOL_PREFERRED_MANY: libc::c_int = 5;
    const MPOL_F_MEMS_ALLOWED: libc::c_ulong = 1 << 2;

    fn mask(node: u32) -> Option<[u64; WORDS]> {
        let mut mask = [0; WORDS];
        *mask.get_mut(node as usize / 64)? |= 1 << (node % 64);
        Some(mask)
    }

    /// Whether this process may use the node.
    pub fn allowed(node: u32) -> Result<(), PlacementError> {
        let not = PlacementError::NodeNotAllowed { node };
        let Some(wanted) = mask(node) else {
            return Err(not);
        };
        let mut nodes = [0u64; WORDS];
        // SAFETY: the kernel writes at most MOST_NODES bits, which `nodes` has.
        let done = unsafe {
            libc::syscall(
                libc::SYS_get_mempolicy,
                std::ptr::null_mut::<libc::c_int>(),
                nodes.as_mut_ptr(),
                MOST_NODES as libc::c_ulong,
                std::ptr::null_mut::<libc::c_void>(),
                MPOL_F_MEMS_ALLOWED,
            )
        };
        if done != 0 {
            let error = io::Error::last_os_error();
            return Err(PlacementError::BindRefused { node, error });
        }
        if wanted.iter().zip(&nodes).any(|(a, b)| a & b != 0) {
            Ok(())
        } else {
            Err(not)
        }
    }

    /// Asks the kernel to take pages of this range, which have not been touched, from the node.
    ///
    /// # Safety
    /// `at` and `len` are whole pages of a mapping that the caller owns.
    pub unsafe fn prefer(at: *mut u8, len: usize, node: u32) -> Result<(), PlacementError> {
        let Some(mask) = mask(node) else {
            return Err(PlacementError::NodeNotAllowed { node });
        };
        // SAFETY: the caller owns the range; the mask has the bits that are said.
        let call = |mode: libc::c_int| unsafe {
            libc::syscall(
                libc::SYS_mbind,
                at,
                len,
                mode,
                mask.as_ptr(),
                MOST_NODES as libc::c_ulong,
                0 as libc::c_uint,
            )
        };
        if call(MPOL_PREFERRED_MANY) == 0 {
            return Ok(());
        }
        // Before Linux 5.15 there is no preference for several.
        if io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL)
            && call(MPOL_PREFERRED) == 0
        {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        Err(match error.raw_os_error() {
            Some(libc::EINVAL) => PlacementError::NodeNotAllowed { node },
            _ => PlacementError::BindRefused { node, error },
        })
    }

    /// On which node the page of this address lies; `None` if it lies nowhere yet, or the kernel
    /// does not say.
    pub fn node_of(at: *const u8) -> Option<u32> {
        let mut page = at.cast_mut().cast::<libc::c_void>();
        let mut status: libc::c_int = -1;
        // SAFETY: without nodes to move to, the call only asks; one page and one status are there.
        let done = unsafe {
            libc::syscall(
                libc::SYS_move_pages,
                0,
                1 as libc::c_ulong,
                &mut page,
                std::ptr::null::<libc::c_int>(),
                &mut status,
                0,
            )
        };
        (done == 0).then_some(status)?.try_into().ok()
    }

    /// Looks whether the touched pages of a range lie on the node.
    pub fn check(at: *const u8, len: usize, node: u32) -> Result<(), PlacementError> {
        let step = (len / ASKED).max(crate::memory::PAGE);
        for offset in (0..len).step_by(step).chain([len - 1]) {
            let on = node_of(at.wrapping_add(offset));
            if on.is_some_and(|on| on != node) {
                return Err(PlacementError::NodeFull { node, found_on: on });
            }
        }
        Ok(())
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
pub use calls::{allowed, check, node_of, prefer};

#[cfg(any(not(target_os = "linux"), miri))]
mod none {
    use crate::error::PlacementError;

    pub fn allowed(_: u32) -> Result<(), PlacementError> {
        Err(PlacementError::NotHere {
            what: "memory by node",
        })
    }

    /// On which node the page of this address lies: this system does not say.
    pub fn node_of(_: *const u8) -> Option<u32> {
        None
    }
}

#[cfg(any(not(target_os = "linux"), miri))]
pub use none::{allowed, node_of};
