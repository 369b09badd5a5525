// SPDX-License-Identifier: GPL-2.0-or-later
//! What containers leave for later: work items, and callbacks of RCU.
//!
//! Both are known by where they lie in memory. Who queues a work item marks it as pending
//! first, by an atomic access to its first word, which whoever runs it reads. Who
//! leaves something to RCU writes both words of a `struct rcu_head`, of which the second
//! one is the function that is read when it is to be called.

use crate::context::{Context, CALLED_BACK, WORKED};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Because of whom something is done later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The number of the container.
    pub container: u32,
    /// The system call, or `OTHER`.
    pub call: u16,
}

/// No system call, but an exception or charged work; all numbers of system calls are lower.
pub const OTHER: u16 = 0xfff;

impl Cause {
    /// Charged work of a kernel thread's, which is everybody's.
    pub const ALL: Cause = Cause {
        container: u32::MAX,
        call: OTHER,
    };

    /// The cause of what both want done.
    fn and(self, other: Cause) -> Cause {
        match self.container == other.container {
            true => self,
            false => Cause::ALL,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    Work,
    Callback,
}

impl What {
    /// The context in which it is done because of a call.
    pub fn context(self, call: u16) -> Context {
        call + match self {
            What::Work => WORKED,
            What::Callback => CALLED_BACK,
        }
    }
}

/// How often something was left in the windows, how often it was done by their end, and for
/// which containers.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Left {
    pub times: u64,
    pub done: u64,
    pub containers: BTreeSet<u32>,
}

/// Where it is done, and who left it.
pub type Way = (Context, By);

/// Who leaves something.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct By {
    /// The call into the function that leaves it.
    pub site: u64,
    /// It is in what was left itself.
    pub late: bool,
}

/// Something that is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    cause: Cause,
    by: By,
}

impl Known {
    fn way(self, what: What) -> Way {
        (what.context(self.cause.call), self.by)
    }
}

/// What is still to be done, by where it lies.
#[derive(Default)]
pub struct Pending {
    /// Because of whom; None: of nobody's who is in a container.
    of: HashMap<(What, u64), Option<Known>>,
    pub left: BTreeMap<Way, Left>,
}

impl Pending {
    fn left(&mut self, what: What, known: Known) -> &mut Left {
        self.left.entry(known.way(what)).or_default()
    }

    /// It is wanted that something is done, which may be pending already.
    fn want(&mut self, what: What, address: u64, known: Known) {
        match self.of.get(&(what, address)).copied() {
            Some(None) => {}
            None => {
                // Pending since before the windows, or not yet pending: then `set` follows.
                self.of.insert((what, address), Some(known));
                self.left(what, known).times += 1;
            }
            Some(Some(before)) => {
                let cause = before.cause.and(known.cause);
                if cause != before.cause {
                    let both = Known { cause, ..before };
                    self.of.insert((what, address), Some(both));
                    self.left(what, before).times -= 1;
                    self.left(what, both).times += 1;
                }
            }
        }
    }

    /// Something becomes pending, because of a container or of nobody. What was known of
    /// that address was of another one, or is done.
    fn set(&mut self, what: What, address: u64, known: Option<Known>) {
        if what == What::Work {
            // It is the same one, which was wanted right before, or was cancelled.
            self.cancel(address);
        }
        self.of.insert((what, address), known);
        if let Some(known) = known {
            self.left(what, known).times += 1;
        }
    }

    /// A work item is taken from who would do it.
    fn cancel(&mut self, address: u64) {
        if let Some(before) = self.of.remove(&(What::Work, address)).flatten() {
            self.left(What::Work, before).times -= 1;
        }
    }

    /// It is done now, if it is that; because of whom.
    pub fn take(&mut self, what: What, address: u64) -> Option<Cause> {
        let known = self.of.remove(&(what, address)).flatten()?;
        let left = self.left(what, known);
        left.done += 1;
        left.containers.insert(known.cause.container);
        Some(known.cause)
    }

    /// Bytes that it holds.
    pub fn bytes(&self) -> usize {
        self.of.capacity() * (std::mem::size_of::<((What, u64), Option<Known>)>() + 1)
    }
}

/// How far one CPU is in leaving something for later.
#[derive(Default)]
pub struct Leaving {
    /// In a function that queues a work item, and where that is; 0 if not yet known.
    inside: bool,
    work: u64,
    /// The last call before such a function was entered.
    pub called: u64,
    by: By,
    /// The work item that one that cancels it has marked.
    grabbed: u64,
    /// Stores to expect of a function that leaves something to RCU, and the last one.
    stores: u8,
    last: u64,
    caller: By,
}

impl Leaving {
    /// A function that queues a work item is entered, or left.
    ///
    /// `by`: who does so; None if that is such a function itself.
    pub fn queue(&mut self, enters: bool, by: Option<By>) {
        self.inside = enters;
        self.work = 0;
        self.by = by.unwrap_or(self.by);
    }

    /// The work item lies there. `marks`: it is wanted, and not only looked at.
    pub fn mark(&mut self, address: u64, cause: Option<Cause>, marks: bool, of: &mut Pending) {
        if !self.inside {
            self.grabbed = if marks { 0 } else { address };
            return;
        }
        self.work = address;
        if let (true, Some(cause)) = (marks, cause) {
            let by = self.by;
            of.want(What::Work, address, Known { cause, by });
        }
    }

    /// Who marks a work item, but not to queue it, stores to `address`: to that only if it has
    /// taken it from who would do it.
    pub fn grab(&mut self, address: u64, of: &mut Pending) {
        if address == self.grabbed && !self.inside {
            self.grabbed = 0;
            of.cancel(address);
        }
    }

    /// The work item was not pending, and is now.
    pub fn queued(&mut self, cause: Option<Cause>, of: &mut Pending) {
        let work = std::mem::replace(&mut self.work, 0);
        if work != 0 {
            let by = self.by;
            of.set(What::Work, work, cause.map(|cause| Known { cause, by }));
        }
    }

    /// A function that leaves something to RCU is entered. `by`: as above.
    pub fn call(&mut self, by: Option<By>) {
        // One of them may be that of a value that guards the stack.
        self.stores = 4;
        self.caller = by.unwrap_or(self.caller);
        self.last = 0;
    }

    /// It stores to `address`.
    pub fn store(&mut self, address: u64, cause: Option<Cause>, of: &mut Pending) {
        if self.stores == 0 {
            return;
        }
        self.stores -= 1;
        let last = std::mem::replace(&mut self.last, address);
        if last.abs_diff(address) == 8 {
            self.stores = 0;
            let by = self.caller;
            let known = cause.map(|cause| Known { cause, by });
            of.set(What::Callback, last.max(address), known);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Cause = Cause {
        container: 1,
        call: 16,
    };
    const TWO: Cause = Cause {
        container: 2,
        call: 16,
    };

    const BY: By = By {
        site: 0x77,
        late: false,
    };

    /// Queues the item at 0x100, which is pending already or not.
    fn queue(of: &mut Pending, cause: Option<Cause>, pending: bool) {
        let mut leaving = Leaving::default();
        leaving.queue(true, Some(BY));
        leaving.mark(0x100, cause, true, of);
        if !pending {
            leaving.queued(cause, of);
        }
        leaving.queue(false, None);
    }

    #[test]
    fn an_item_is_done_once_for_who_queued_it() {
        let mut of = Pending::default();
        queue(&mut of, Some(ONE), false);
        assert_eq!(of.take(What::Callback, 0x100), None);
        assert_eq!(of.take(What::Work, 0x108), None);
        assert_eq!(of.take(What::Work, 0x100), Some(ONE));
        assert_eq!(of.take(What::Work, 0x100), None);
    }

    /// How often something was left in the context, and done; for how many containers.
    fn left(of: &Pending, what: What, cause: Cause) -> (u64, u64, usize) {
        let way = (what.context(cause.call), BY);
        let left = of.left.get(&way).cloned().unwrap_or_default();
        (left.times, left.done, left.containers.len())
    }

    #[test]
    fn what_was_left_is_counted_and_what_of_it_was_done() {
        let mut of = Pending::default();
        queue(&mut of, Some(ONE), false);
        queue(&mut of, Some(ONE), true);
        assert_eq!(left(&of, What::Work, ONE), (1, 0, 0));
        of.take(What::Work, 0x100);
        of.take(What::Work, 0x100);
        assert_eq!(left(&of, What::Work, ONE), (1, 1, 1));
        // What a second one wants is left by both.
        queue(&mut of, Some(ONE), false);
        queue(&mut of, Some(TWO), true);
        assert_eq!(left(&of, What::Work, ONE), (1, 1, 1));
        assert_eq!(left(&of, What::Work, Cause::ALL), (1, 0, 0));
        of.take(What::Work, 0x100);
        assert_eq!(left(&of, What::Work, Cause::ALL), (1, 1, 1));
        // Nobody's, and wanted by one as well.
        queue(&mut of, None, false);
        queue(&mut of, Some(ONE), true);
        of.take(What::Work, 0x100);
        assert_eq!(left(&of, What::Work, ONE), (1, 1, 1));
        // Queued before the windows.
        queue(&mut of, Some(TWO), true);
        of.take(What::Work, 0x100);
        assert_eq!(left(&of, What::Work, ONE), (2, 2, 2));
    }

    #[test]
    fn what_is_cancelled_is_not_left() {
        let (mut of, mut leaving) = (Pending::default(), Leaving::default());
        queue(&mut of, Some(ONE), false);
        leaving.mark(0x100, Some(ONE), false, &mut of);
        // Not yet: it may be too late for that.
        leaving.grab(0x108, &mut of);
        assert_eq!(left(&of, What::Work, ONE), (1, 0, 0));
        leaving.grab(0x100, &mut of);
        assert_eq!(left(&of, What::Work, ONE), (0, 0, 0));
        assert_eq!(of.take(What::Work, 0x100), None);
        leaving.grab(0x100, &mut of);
        // Cancelled in a way that is not seen, and queued anew.
        queue(&mut of, Some(ONE), false);
        queue(&mut of, Some(ONE), false);
        assert_eq!(left(&of, What::Work, ONE), (1, 0, 0));
        // Taken to be queued again.
        leaving.queue(true, Some(BY));
        leaving.mark(0x100, Some(ONE), false, &mut of);
        leaving.grab(0x100, &mut of);
        leaving.queued(Some(ONE), &mut of);
        assert_eq!(left(&of, What::Work, ONE), (1, 0, 0));
        assert_eq!(of.take(What::Work, 0x100), Some(ONE));
    }

    #[test]
    fn what_was_left_is_told_apart_by_the_call_that_left_it() {
        let (mut of, mut leaving) = (Pending::default(), Leaving::default());
        for (site, address) in [(0x70, 0x108), (0x72, 0x208), (0x70, 0x308)] {
            let late = site == 0x72;
            leaving.call(Some(By { site, late }));
            // The outer one of two functions calls the inner one.
            leaving.store(0x9020, Some(ONE), &mut of);
            leaving.call(None);
            leaving.store(address, Some(ONE), &mut of);
            leaving.store(address - 8, Some(ONE), &mut of);
        }
        of.take(What::Callback, 0x308);
        let context = What::Callback.context(ONE.call);
        let found: Vec<_> = of
            .left
            .iter()
            .map(|(way, one)| (*way, one.times, one.done))
            .collect();
        let by = |site, late| (context, By { site, late });
        assert_eq!(found, [(by(0x70, false), 2, 1), (by(0x72, true), 1, 0)]);
    }

    #[test]
    fn an_item_that_several_containers_want_done_is_everybodys() {
        let mut of = Pending::default();
        queue(&mut of, Some(ONE), false);
        queue(&mut of, Some(ONE), true);
        assert_eq!(of.take(What::Work, 0x100), Some(ONE));
        queue(&mut of, Some(ONE), false);
        queue(&mut of, Some(TWO), true);
        assert_eq!(of.take(What::Work, 0x100), Some(Cause::ALL));
        // What somebody had queued before the window, or by a timer.
        queue(&mut of, Some(TWO), true);
        assert_eq!(of.take(What::Work, 0x100), Some(TWO));
    }

    #[test]
    fn an_item_that_nobody_queued_is_no_containers_who_wants_it_too() {
        let mut of = Pending::default();
        queue(&mut of, None, false);
        queue(&mut of, Some(ONE), true);
        assert_eq!(of.take(What::Work, 0x100), None);
        queue(&mut of, Some(ONE), false);
        assert_eq!(of.take(What::Work, 0x100), Some(ONE));
    }

    #[test]
    fn an_item_that_is_queued_anew_is_whose_it_is_now() {
        let mut of = Pending::default();
        queue(&mut of, Some(ONE), false);
        queue(&mut of, Some(TWO), false);
        assert_eq!(of.take(What::Work, 0x100), Some(TWO));
        queue(&mut of, Some(ONE), false);
        queue(&mut of, None, true);
        assert_eq!(of.take(What::Work, 0x100), Some(ONE));
        queue(&mut of, Some(ONE), false);
        queue(&mut of, None, false);
        assert_eq!(of.take(What::Work, 0x100), None);
    }

    #[test]
    fn what_is_only_cancelled_is_nobodys() {
        let (mut of, mut leaving) = (Pending::default(), Leaving::default());
        leaving.mark(0x100, Some(ONE), false, &mut of);
        leaving.queued(Some(ONE), &mut of);
        assert_eq!(of.take(What::Work, 0x100), None);
        leaving.queue(true, Some(BY));
        leaving.mark(0x100, Some(ONE), false, &mut of);
        leaving.queued(Some(ONE), &mut of);
        assert_eq!(of.take(What::Work, 0x100), Some(ONE));
        // Looked at, but not changed.
        leaving.mark(0x100, Some(ONE), false, &mut of);
        leaving.queue(false, None);
        leaving.queued(Some(ONE), &mut of);
        assert_eq!(of.take(What::Work, 0x100), None);
    }

    #[test]
    fn a_callback_is_known_by_both_words_of_its_head() {
        for stores in [&[0x9020, 0x108, 0x100][..], &[0x100, 0x108]] {
            let (mut of, mut leaving) = (Pending::default(), Leaving::default());
            leaving.call(Some(BY));
            for address in stores {
                leaving.store(*address, Some(ONE), &mut of);
            }
            leaving.store(0x110, Some(ONE), &mut of);
            assert_eq!(of.take(What::Callback, 0x110), None);
            assert_eq!(of.take(What::Callback, 0x108), Some(ONE));
            leaving.call(Some(BY));
            leaving.store(0x108, None, &mut of);
            leaving.store(0x100, None, &mut of);
            assert_eq!(of.take(What::Callback, 0x108), None);
        }
    }
}
