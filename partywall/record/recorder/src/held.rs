// SPDX-License-Identifier: GPL-2.0-or-later
//! Sums over all times that locks were held, and that tasks waited.

use std::collections::{BTreeMap, HashMap};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Exclusive,
    Shared,
}

/// Times one lock was held, in the windows of all CPUs together.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Sum {
    pub exclusive: u64,
    pub shared: u64,
    /// Instructions run while it was held exclusively and nothing was taken after it.
    pub own: u64,
    /// Instructions run while it was held exclusively.
    pub all: u64,
    /// Of the exclusive times, those in which the holder was switched away from.
    pub slept: u64,
    /// Of the exclusive times, those in which the holder waited for RCU.
    pub waited: u64,
}

/// What a task sleeps for: the number of the function that it waits in, and the call
/// that led there, or the lock that it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reason {
    pub function: u16,
    pub at: u64,
}

/// It sleeps in no function that is known to wait: it was preempted.
pub const NOWHERE: Reason = Reason {
    function: u16::MAX,
    at: 0,
};

/// A point in time: the guest's clock, and the instructions that each CPU has run.
///
/// The emulator runs one CPU at a time, and the clock goes on with each of them. So what
/// they run in turn is taken for run side by side: it lasts as long as the one that ran most.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Moment {
    pub ns: u64,
    pub ran: Vec<u64>,
}

impl Moment {
    /// Nanoseconds since `before`.
    pub fn since(&self, before: &Moment, instruction_ns: u64) -> u64 {
        let passed = self.ns.saturating_sub(before.ns);
        let first = before.ran.iter().copied().chain(std::iter::repeat(0));
        let ran = self
            .ran
            .iter()
            .zip(first)
            .map(|(now, then)| now.saturating_sub(then));
        let (sum, most) = ran.fold((0, 0), |(sum, most), one| (sum + one, one.max(most)));
        let idle = passed.saturating_sub(sum * instruction_ns);
        (idle + most * instruction_ns).min(passed)
    }
}

/// How often something lasted, and for how many nanoseconds of the guest's time.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Times {
    pub times: u64,
    /// Of these, those with sleep in them.
    pub slept: u64,
    pub ns: u64,
    /// Of these, asleep.
    pub asleep: u64,
    pub longest: u64,
}

impl Times {
    pub fn add(&mut self, ns: u64, asleep: u64) {
        self.times += 1;
        self.slept += (asleep > 0) as u64;
        self.ns += ns;
        self.asleep += asleep;
        self.longest = self.longest.max(ns);
    }
}

/// How long one lock was held that was taken in one place.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Hold {
    pub held: Times,
    pub instructions: u64,
    /// Sleep for it, before it was had.
    pub tried: Times,
    /// Times and nanoseconds asleep with it, by what for.
    pub reasons: BTreeMap<Reason, (u64, u64)>,
}

#[derive(Default)]
pub struct Sums {
    /// Nanoseconds of the guest's time for an instruction.
    pub instruction_ns: u64,
    /// By the address of the lock's word.
    pub of: HashMap<u64, Sum>,
    /// By that, by the call that took it, and by whether that was in charged work.
    pub holds: HashMap<(u64, u64, Kind, bool), Hold>,
    /// Functions that wait, from where they were called, by themselves and in no other one.
    pub waits: HashMap<Reason, Times>,
}

impl Sums {
    pub fn new(instruction_ns: u64) -> Self {
        Sums {
            instruction_ns,
            ..Sums::default()
        }
    }

    #[inline]
    pub fn hold(&mut self, address: u64, taker: u64, kind: Kind, charged: bool) -> &mut Hold {
        let key = (address, taker, kind, charged);
        self.holds.entry(key).or_default()
    }

    /// Forgets all but how long an instruction takes.
    pub fn clear(&mut self) {
        *self = Sums::new(self.instruction_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(ns: u64, ran: &[u64]) -> Moment {
        let ran = ran.to_vec();
        Moment { ns, ran }
    }

    #[test]
    fn what_cpus_run_in_turn_lasts_as_long_as_the_one_that_runs_most() {
        let before = moment(1_000, &[10, 20]);
        // Nobody runs; one does; two and a third one do, and all are idle for the rest.
        assert_eq!(moment(5_000, &[10, 20]).since(&before, 2), 4_000);
        assert_eq!(moment(5_000, &[1_010, 20]).since(&before, 2), 4_000);
        assert_eq!(moment(5_000, &[510, 320, 100]).since(&before, 2), 3_200);
    }

    #[test]
    fn a_block_that_was_left_in_its_midst_makes_no_time() {
        let before = moment(1_000, &[0, 0]);
        assert_eq!(moment(1_100, &[30, 30]).since(&before, 2), 60);
        assert_eq!(moment(1_100, &[90, 30]).since(&before, 2), 100);
        // Without a clock there is none.
        assert_eq!(moment(0, &[90, 30]).since(&moment(0, &[]), 2), 0);
    }
}
