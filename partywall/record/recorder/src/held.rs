// SPDX-License-Identifier: GPL-2.0-or-later
//! Sums over all times that locks were held, and that tasks waited.

use crate::spans::Spans;
use crate::under::Sets;
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
    /// Nanoseconds for which it was held in all, by one after the other: what was held
    /// by several at once counts once.
    pub progress: u64,
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
/// The emulator runs one CPU at a time, and the clock goes on with each of them. What ends
/// by that clock lasts for what has passed by it (`passed`). What is done by CPUs side by
/// side lasts as long as the one that ran most (`side_by_side`), and no time in which all
/// were idle can have been shorter (`idle`).
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Moment {
    pub ns: u64,
    pub ran: Vec<u64>,
}

impl Moment {
    /// Nanoseconds since `before`, by the clock.
    pub fn passed(&self, before: &Moment) -> u64 {
        self.ns.saturating_sub(before.ns)
    }

    /// Of these, those in which no CPU ran, and those that the busiest one ran for.
    fn parts(&self, before: &Moment, instruction_ns: u64) -> (u64, u64) {
        let first = before.ran.iter().copied().chain(std::iter::repeat(0));
        let ran = self
            .ran
            .iter()
            .zip(first)
            .map(|(now, then)| now.saturating_sub(then));
        let (sum, most) = ran.fold((0, 0), |(sum, most), one| (sum + one, one.max(most)));
        let idle = self.passed(before).saturating_sub(sum * instruction_ns);
        (idle, most * instruction_ns)
    }

    /// Nanoseconds since `before` for which all CPUs were idle.
    pub fn idle(&self, before: &Moment, instruction_ns: u64) -> u64 {
        self.parts(before, instruction_ns).0
    }

    /// Nanoseconds since `before`, had all CPUs run at the same time.
    pub fn side_by_side(&self, before: &Moment, instruction_ns: u64) -> u64 {
        let (idle, most) = self.parts(before, instruction_ns);
        (idle + most).min(self.passed(before))
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
    /// The longest one with sleep in it.
    pub longest_slept: u64,
    /// What it is at most: asleep by the clock, whatever other CPUs ran meanwhile.
    pub asleep_at_most: u64,
    pub longest_at_most: u64,
}

impl Times {
    /// `awake` nanoseconds, and `asleep`, which are `at_most` by the clock.
    pub fn add(&mut self, awake: u64, asleep: u64, at_most: u64) {
        let ns = awake + asleep;
        self.times += 1;
        self.ns += ns;
        self.asleep += asleep;
        self.longest = self.longest.max(ns);
        if asleep.max(at_most) > 0 {
            self.slept += 1;
            self.longest_slept = self.longest_slept.max(ns);
            self.asleep_at_most += at_most;
            self.longest_at_most = self.longest_at_most.max(awake + at_most);
        }
    }
}

/// Who did something: no CPU yet, one of them, or several.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Whose {
    first: Option<Who>,
    pub several_cpus: bool,
    pub several_containers: bool,
    /// Others may have the lock who are not seen to take it: readers of a
    /// percpu_rw_semaphore.
    pub unseen: bool,
}

/// A CPU and its container, or a kernel thread in charged work.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Who {
    pub cpu: u32,
    pub container: u32,
}

impl Who {
    pub const THREAD: Who = Who {
        cpu: u32::MAX,
        container: u32::MAX,
    };
}

impl Whose {
    fn add(&mut self, by: Who) {
        let first = *self.first.get_or_insert(by);
        self.several_cpus |= first.cpu != by.cpu;
        self.several_containers |= first.container != by.container;
    }

    /// The first CPU.
    pub fn cpu(&self) -> u32 {
        self.first.unwrap_or(Who::THREAD).cpu
    }
}

/// How long one lock was held that was taken in one place.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Hold {
    pub whose: Whose,
    pub held: Times,
    pub instructions: u64,
    /// Nanoseconds asleep while no lock that was taken later was held, and for no lock.
    pub own_asleep: u64,
    /// Sleep for it, before it was had.
    pub tried: Times,
    /// Times and nanoseconds asleep with it, by what for.
    pub reasons: BTreeMap<Reason, (u64, u64)>,
}

/// A lock, the call that took it, how, and whether in charged work.
pub type Key = (u64, u64, Kind, bool);

/// What a recording has of a key: lock, call, and bits.
pub fn who((address, taker, kind, charged): &Key) -> [u64; 3] {
    let bits = (*kind == Kind::Shared) as u64 | (*charged as u64) << 1;
    [*address, *taker, bits]
}

impl Hold {
    /// What a recording has of it.
    pub fn words(&self, key: &Key) -> [u64; 16] {
        let [address, taker, kind] = who(key);
        let whose = (self.whose.several_cpus as u64) << 2
            | (self.whose.several_containers as u64) << 3
            | (self.whose.unseen as u64) << 4;
        [
            address,
            taker,
            kind | whose,
            self.held.times,
            self.held.slept,
            self.instructions,
            self.own_asleep,
            self.held.asleep,
            self.held.asleep_at_most,
            self.held.longest,
            self.held.longest_slept,
            self.held.longest_at_most,
            self.tried.times,
            self.tried.ns,
            self.tried.longest,
            self.whose.cpu() as u64,
        ]
    }
}

/// How long a function waited that was called in one place.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Wait {
    pub times: Times,
    /// Nanoseconds asleep while no lock was held that keeps others out.
    pub unlocked: u64,
}

impl Wait {
    /// What a recording has of it.
    pub fn words(&self, (reason, charged): &(Reason, bool)) -> [u64; 11] {
        [
            reason.function as u64,
            reason.at,
            (*charged as u64) << 1,
            self.times.times,
            self.times.slept,
            self.times.ns,
            self.times.asleep,
            self.times.asleep_at_most,
            self.unlocked,
            self.times.longest,
            self.times.longest_at_most,
        ]
    }
}

#[derive(Default)]
pub struct Sums {
    /// Nanoseconds of the guest's time for an instruction.
    pub instruction_ns: u64,
    /// By the address of the lock's word.
    pub of: HashMap<u64, Sum>,
    /// Of locks that are one bit, how many nanoseconds they were held for in all.
    pub bits: HashMap<u64, u64>,
    /// By that, by the call that took it, and by whether that was in charged work.
    pub holds: HashMap<Key, Hold>,
    /// Functions that wait, from where they were called, by themselves and in no other one,
    /// and whether in charged work.
    pub waits: HashMap<(Reason, bool), Wait>,
    /// How often it was not seen that a lock was given back.
    pub lost: HashMap<u64, u64>,
    /// Which are held at once.
    pub sets: Sets,
    /// When they were held asleep, and slept for.
    pub spans: Spans,
}

impl Sums {
    pub fn new(instruction_ns: u64) -> Self {
        Sums {
            instruction_ns,
            ..Sums::default()
        }
    }

    /// Nanoseconds for which `lock` was held until it was last given back.
    pub fn done(&self, lock: u64) -> u64 {
        let whole = self.of.get(&lock).map_or(0, |sum| sum.progress);
        whole.max(self.bits.get(&lock).copied().unwrap_or(0))
    }

    /// Whether one knows when a lock is held: it is seen to be given back, but for a few times.
    pub fn known(&self, lock: u64) -> bool {
        let lost = self.lost.get(&lock).map_or(0, |lost| *lost);
        matches!(self.of.get(&lock), Some(sum) if sum.exclusive > 64 * lost)
    }

    #[inline]
    pub fn hold(&mut self, address: u64, taker: u64, kind: Kind, by: Who) -> &mut Hold {
        let key = (address, taker, kind, by == Who::THREAD);
        let hold = self.holds.entry(key).or_default();
        hold.whose.add(by);
        hold
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
        assert_eq!(moment(5_000, &[10, 20]).side_by_side(&before, 2), 4_000);
        assert_eq!(moment(5_000, &[1_010, 20]).side_by_side(&before, 2), 4_000);
        let now = moment(5_000, &[510, 320, 100]);
        assert_eq!(now.side_by_side(&before, 2), 3_200);
        assert_eq!((now.idle(&before, 2), now.passed(&before)), (2_200, 4_000));
    }

    #[test]
    fn a_block_that_was_left_in_its_midst_makes_no_time() {
        let before = moment(1_000, &[0, 0]);
        assert_eq!(moment(1_100, &[30, 30]).side_by_side(&before, 2), 60);
        assert_eq!(moment(1_100, &[90, 30]).side_by_side(&before, 2), 100);
        // Without a clock there is none.
        assert_eq!(moment(0, &[90, 30]).side_by_side(&moment(0, &[]), 2), 0);
    }

    #[test]
    fn what_is_longest_with_sleep_in_it_is_apart() {
        let mut times = Times::default();
        times.add(900, 0, 0);
        times.add(100, 50, 300);
        times.add(10, 60, 60);
        assert_eq!((times.times, times.slept, times.ns), (3, 2, 1_120));
        assert_eq!((times.longest, times.longest_slept), (900, 150));
        assert_eq!((times.asleep_at_most, times.longest_at_most), (360, 400));
    }

    #[test]
    fn who_takes_a_lock_is_one_or_several() {
        let by = |cpu| {
            let container = cpu / 2;
            Who { cpu, container }
        };
        let mut sums = Sums::new(2);
        for (by, several_cpus, several_containers) in [
            (by(2), false, false),
            (by(2), false, false),
            (by(3), true, false),
            (by(1), true, true),
        ] {
            let whose = sums.hold(0x10, 0x77, Kind::Exclusive, by).whose;
            let found = (whose.cpu(), whose.several_cpus, whose.several_containers);
            assert_eq!(found, (2, several_cpus, several_containers));
        }
        let thread = sums.hold(0x10, 0x77, Kind::Exclusive, Who::THREAD).whose;
        assert_eq!((thread.cpu(), thread.several_cpus), (u32::MAX, false));
    }
}
