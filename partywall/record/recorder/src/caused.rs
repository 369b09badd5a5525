// SPDX-License-Identifier: GPL-2.0-or-later
//! What containers leave for later: work items, and callbacks of RCU.
//!
//! Both are known by where they lie in memory. Who queues a work item marks it as pending
//! first, by an atomic access to its first word, which whoever runs it reads. Who
//! leaves something to RCU writes both words of a `struct rcu_head`, of which the second
//! one is the function that is read when it is to be called.

use crate::context::{Context, CALLED_BACK, WORKED};
use std::collections::{BTreeMap, HashMap};

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

/// How often something was left in the windows, and how often it was done by their end.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Left {
    pub times: u64,
    pub done: u64,
}

/// What is still to be done, by where it lies.
#[derive(Default)]
pub struct Pending {
    /// Because of whom; None: of nobody's who is in a container.
    of: HashMap<(What, u64), Option<Cause>>,
    /// What containers left, by the context in which it is done.
    pub left: BTreeMap<Context, Left>,
}

impl Pending {
    fn left(&mut self, what: What, cause: Cause) -> &mut Left {
        self.left.entry(what.context(cause.call)).or_default()
    }

    /// It is wanted that something is done, which may be pending already.
    fn want(&mut self, what: What, address: u64, cause: Cause) {
        match self.of.get(&(what, address)).copied() {
            Some(None) => {}
            None => {
                // Pending since before the windows, or not yet pending: then `set` follows.
                self.of.insert((what, address), Some(cause));
                self.left(what, cause).times += 1;
            }
            Some(Some(before)) => {
                let both = before.and(cause);
                if both != before {
                    self.of.insert((what, address), Some(both));
                    self.left(what, before).times -= 1;
                    self.left(what, both).times += 1;
                }
            }
        }
    }

    /// Something becomes pending, because of a container or of nobody. What was known of
    /// that address was of another one, or is done.
    fn set(&mut self, what: What, address: u64, cause: Option<Cause>) {
        let before = self.of.insert((what, address), cause).flatten();
        if let (What::Work, Some(before)) = (what, before) {
            // It is the same one, which was wanted right before, or was cancelled.
            self.left(what, before).times -= 1;
        }
        if let Some(cause) = cause {
            self.left(what, cause).times += 1;
        }
    }

    /// It is done now, if it is that; because of whom.
    pub fn take(&mut self, what: What, address: u64) -> Option<Cause> {
        let cause = self.of.remove(&(what, address)).flatten()?;
        self.left(what, cause).done += 1;
        Some(cause)
    }

    /// Bytes that it holds.
    pub fn bytes(&self) -> usize {
        self.of.capacity() * (std::mem::size_of::<((What, u64), Option<Cause>)>() + 1)
    }
}

/// How far one CPU is in leaving something for later.
#[derive(Default)]
pub struct Leaving {
    /// In a function that queues a work item, and where that is; 0 if not yet known.
    inside: bool,
    work: u64,
    /// Stores to expect of a function that leaves something to RCU, and the last one.
    stores: u8,
    last: u64,
}

impl Leaving {
    /// A function that queues a work item is entered, or left.
    pub fn queue(&mut self, enters: bool) {
        self.inside = enters;
        self.work = 0;
    }

    /// The work item lies there. `marks`: it is wanted, and not only looked at.
    pub fn mark(&mut self, address: u64, cause: Option<Cause>, marks: bool, of: &mut Pending) {
        if !self.inside {
            return;
        }
        self.work = address;
        if let (true, Some(cause)) = (marks, cause) {
            of.want(What::Work, address, cause);
        }
    }

    /// The work item was not pending, and is now.
    pub fn queued(&mut self, cause: Option<Cause>, of: &mut Pending) {
        let work = std::mem::replace(&mut self.work, 0);
        if work != 0 {
            of.set(What::Work, work, cause);
        }
    }

    /// A function that leaves something to RCU is entered.
    pub fn call(&mut self) {
        // One of them may be that of a value that guards the stack.
        self.stores = 4;
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
            of.set(What::Callback, last.max(address), cause);
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

    /// Queues the item at 0x100, which is pending already or not.
    fn queue(of: &mut Pending, cause: Option<Cause>, pending: bool) {
        let mut leaving = Leaving::default();
        leaving.queue(true);
        leaving.mark(0x100, cause, true, of);
        if !pending {
            leaving.queued(cause, of);
        }
        leaving.queue(false);
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

    /// How often something was left in the context, and done.
    fn left(of: &Pending, what: What, cause: Cause) -> (u64, u64) {
        let left = of.left.get(&what.context(cause.call)).copied();
        let left = left.unwrap_or_default();
        (left.times, left.done)
    }

    #[test]
    fn what_was_left_is_counted_and_what_of_it_was_done() {
        let mut of = Pending::default();
        queue(&mut of, Some(ONE), false);
        queue(&mut of, Some(ONE), true);
        assert_eq!(left(&of, What::Work, ONE), (1, 0));
        of.take(What::Work, 0x100);
        of.take(What::Work, 0x100);
        assert_eq!(left(&of, What::Work, ONE), (1, 1));
        // One that was cancelled is left once it is queued anew.
        queue(&mut of, Some(ONE), false);
        queue(&mut of, Some(ONE), false);
        assert_eq!(left(&of, What::Work, ONE), (2, 1));
        // What a second one wants is left by both.
        queue(&mut of, Some(TWO), true);
        assert_eq!(left(&of, What::Work, ONE), (1, 1));
        assert_eq!(left(&of, What::Work, Cause::ALL), (1, 0));
        of.take(What::Work, 0x100);
        assert_eq!(left(&of, What::Work, Cause::ALL), (1, 1));
        // Nobody's, and wanted by one as well.
        queue(&mut of, None, false);
        queue(&mut of, Some(ONE), true);
        of.take(What::Work, 0x100);
        assert_eq!(left(&of, What::Work, ONE), (1, 1));
        // Queued before the windows.
        queue(&mut of, Some(ONE), true);
        of.take(What::Work, 0x100);
        assert_eq!(left(&of, What::Work, ONE), (2, 2));
        for address in [0x108, 0x208, 0x108] {
            of.set(What::Callback, address, Some(ONE));
        }
        of.take(What::Callback, 0x108);
        assert_eq!(left(&of, What::Callback, ONE), (3, 1));
        assert_eq!(left(&of, What::Work, ONE), (2, 2));
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
        leaving.queue(true);
        leaving.mark(0x100, Some(ONE), false, &mut of);
        leaving.queued(Some(ONE), &mut of);
        assert_eq!(of.take(What::Work, 0x100), Some(ONE));
        // Looked at, but not changed.
        leaving.mark(0x100, Some(ONE), false, &mut of);
        leaving.queue(false);
        leaving.queued(Some(ONE), &mut of);
        assert_eq!(of.take(What::Work, 0x100), None);
    }

    #[test]
    fn a_callback_is_known_by_both_words_of_its_head() {
        for stores in [&[0x9020, 0x108, 0x100][..], &[0x100, 0x108]] {
            let (mut of, mut leaving) = (Pending::default(), Leaving::default());
            leaving.call();
            for address in stores {
                leaving.store(*address, Some(ONE), &mut of);
            }
            leaving.store(0x110, Some(ONE), &mut of);
            assert_eq!(of.take(What::Callback, 0x110), None);
            assert_eq!(of.take(What::Callback, 0x108), Some(ONE));
            leaving.call();
            leaving.store(0x108, None, &mut of);
            leaving.store(0x100, None, &mut of);
            assert_eq!(of.take(What::Callback, 0x108), None);
        }
    }
}
