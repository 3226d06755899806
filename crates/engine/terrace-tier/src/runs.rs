//! Sorted records that go straight to the tier where records rest, as far as the number of tiers does not
//! matter.

use terrace_access::{Retry, Tier, Window};
use terrace_base::Result;

use crate::context::TierContext;

/// See [`most_misses`]: one more for this many records, and [`LEAST_MISSES`] in any case.
const RECORDS_PER_MISS: usize = 8;
const LEAST_MISSES: usize = 4;

/// Puts a run: as many records at once as `put_run` takes of those that it is given (numbers in the run, in
/// ascending order; it returns how many), and each that it does not take, or that is not `simple`, `alone`.
pub(crate) fn put_all(
    len: usize,
    simple: impl Fn(usize) -> bool,
    mut put_run: impl FnMut(&[usize]) -> usize,
    mut alone: impl FnMut(usize) -> Result<()>,
) -> Result<()> {
    let all: Vec<usize> = (0..len).collect();
    let mut next = 0;
    while next < len {
        let end = (next..len).find(|&i| !simple(i)).unwrap_or(len);
        let put = match next < end {
            true => put_run(&all[next..end]).min(end - next),
            false => 0,
        };
        next += put;
        if put == 0 {
            alone(next)?;
            next += 1;
        }
    }
    Ok(())
}

/// Pages that are read for a run at most: with more, those that were read first would have to make way for
/// the last ones where memory is short, and a run that needs more than that is none.
pub(crate) fn most_misses(run: &Window) -> usize {
    LEAST_MISSES + run.len() / RECORDS_PER_MISS
}

/// Pages that are read ahead for records that go to a tier, with the first one: few of all frames, and as many as a
/// device answers well.
const MOST_AHEAD: usize = 8;

/// Brings in the page that was missed for the record at `from`, and at the same time those that records behind it need,
/// which go to the tier next. Who looks at one that cannot be read is told then.
pub(crate) fn read_ahead<M: Tier>(
    context: &TierContext,
    method: &M,
    records: &Window,
    from: usize,
    missed: &Retry,
) {
    let Retry::Miss(first) = *missed else {
        return;
    };
    let mut pages = vec![first];
    for i in from + 1..records.len() {
        match method.try_reach_to_put(records.key(i)) {
            Err(Retry::Miss(page)) if !pages.contains(&page) => pages.push(page),
            Err(Retry::Miss(_)) | Ok(()) => {}
            Err(_) => break,
        }
        if pages.len() == MOST_AHEAD {
            break;
        }
    }
    if pages.len() > 1 {
        // Each would have been missed by itself.
        pages[1..]
            .iter()
            .for_each(|page| context.note_missed(*page));
        context.store.read_ahead(pages);
    }
}

/// Brings into memory what a run needs of a tier: for each of the first `most` records its leaf, and where it
/// lies. As long as there are `misses` left, but for the first record in any case. Returns how many it was
/// done for.
pub(crate) fn reach<M: Tier>(
    method: &M,
    run: &Window,
    most: usize,
    misses: &mut usize,
    settle: impl Fn(Retry) -> Result<()>,
) -> Result<usize> {
    let mut next = 0;
    while next < most
        && let Err(interrupt) = method.try_reach_run(run, &mut next)
    {
        if let Retry::Miss(_) = interrupt {
            if *misses == 0 && next > 0 {
                break;
            }
            *misses = misses.saturating_sub(1);
        }
        settle(interrupt)?;
    }
    Ok(next.min(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_a_run_is_put_once_and_in_order() {
        // Taken at once: nothing, one, some, more than there are; and some that go alone in any case.
        for takes in [0, 1, 3, 100] {
            let (mut done, mut single) = (Vec::new(), Vec::new());
            let log = std::cell::RefCell::new(&mut done);
            put_all(
                10,
                |i| i != 4 && i != 9,
                |which| {
                    let put = which.len().min(takes);
                    log.borrow_mut().extend_from_slice(&which[..put]);
                    takes
                },
                |i| {
                    single.push(i);
                    log.borrow_mut().push(i);
                    Ok(())
                },
            )
            .unwrap();
            assert_eq!(done, (0..10).collect::<Vec<_>>());
            assert!(single.contains(&4) && single.contains(&9), "{single:?}");
            assert_eq!(single.len(), if takes == 0 { 10 } else { 2 });
        }
    }
}
