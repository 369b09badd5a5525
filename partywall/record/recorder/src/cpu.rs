// SPDX-License-Identifier: GPL-2.0-or-later
//! What is known of one vCPU, and of the parties that it works for.

use crate::caused::{Cause, Leaving};
use crate::context::{self, Tracker};
use crate::cycles::Counting;
use crate::event::{Event, What, ATOMIC, LOCKS, OWN_STACK};
use crate::format::{kind, Summary};
use crate::held::{Kind, Sums, Who};
use crate::hooks;
use crate::table::Tables;
use crate::turns::NOBODY;
use crate::under::{self, Held};
use crate::waits::Waits;

/// What a vCPU recorded, or a kernel thread in charged work on one vCPU.
pub struct Party {
    pub tables: Tables,
    pub summary: Summary,
}

impl Party {
    pub fn new(visit_distance: u64, number: u32, counts: usize, cpu: u32, thread: u64) -> Self {
        Party {
            tables: Tables::new(visit_distance, number),
            summary: Summary {
                cpu,
                thread,
                calls: vec![0; counts],
                ..Summary::default()
            },
        }
    }
}

/// What is known of work that was kept back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The CPU got on by itself.
    Work,
    /// Another CPU takes over, or an interrupt.
    Left,
    /// No room is left to keep it back.
    Full,
}

pub struct Cpu {
    pub tracker: Tracker,
    /// The number of the container whose CPU it is.
    pub container: u32,
    pub context: u16,
    /// Of the work that goes on, as `kind` has it.
    pub kind: u64,
    /// Between this CPU's start and stop markers.
    pub open: bool,
    pub own: Party,
    /// Threads seen in charged work here. A worker that moves between CPUs
    /// takes its stack along, which must not look as if CPUs shared it.
    pub threads: Vec<Party>,
    /// On whose account it works now: its own, or an index into threads.
    pub thread: Option<usize>,
    /// The string instruction that runs, and the lines it read and wrote last.
    pub repeating: u64,
    pub swept: [u64; 2],
    /// Instructions run, whatever for.
    pub ran: u64,
    /// Instructions run for the workload, at once or put off, but for those that spin.
    pub clock: u64,
    /// What it does for the workload, until it is known to be no waiting.
    pub waits: Waits,
    /// What it is about to leave for later.
    pub leaving: Leaving,
    /// The locks that are held, with the numbers of their holds, and those that were when what
    /// was counted last was done.
    holds: Vec<u32>,
    set: Held,
    counted: Held,
}

impl Cpu {
    /// A CPU of which nothing is known yet. `stack_size` in bytes.
    pub fn new(own: Party, container: u32, stack_size: u64) -> Self {
        Cpu {
            tracker: Tracker::new(stack_size),
            container,
            context: context::TASK,
            kind: kind::BACKGROUND,
            open: false,
            own,
            threads: Vec::new(),
            thread: None,
            repeating: 0,
            swept: [0; 2],
            ran: 0,
            clock: 0,
            waits: Waits::default(),
            leaving: Leaving::default(),
            holds: Vec::new(),
            set: Held::NONE,
            counted: Held::NONE,
        }
    }

    /// What it does for its workload is recorded in this CPU's own window; what the
    /// kernel does by itself, charged work, and what was left for later, as long as any window
    /// is open.
    #[inline(always)]
    pub fn records(&self) -> bool {
        self.open
            || self.kind == kind::BACKGROUND
            || self.thread.is_some()
            || context::is_caused(self.context)
    }

    /// Because of whom things are done later that are left for that now.
    pub fn cause(&self) -> Option<Cause> {
        match self.records() {
            true => self.tracker.cause(self.container),
            false => None,
        }
    }

    #[inline(always)]
    pub fn foreground(&self) -> bool {
        self.kind == kind::FOREGROUND
    }

    /// It works for the workload, at once or put off: of its locks it is known how long they
    /// are held.
    #[inline(always)]
    pub fn works(&self) -> bool {
        self.kind != kind::BACKGROUND
    }

    /// So many instructions are run, in a function that waits for a lock or not. Returns those
    /// that are work.
    #[inline(always)]
    pub fn run(&mut self, instructions: u64, spins: bool) -> u64 {
        let kind = self.kind;
        let summary = &mut self.party().summary;
        let work = if spins && kind != kind::BACKGROUND {
            0
        } else {
            instructions
        };
        if kind == kind::FOREGROUND {
            summary.kernel_instructions += work;
            summary.spinning_instructions += instructions - work;
        } else {
            summary.background_instructions += work;
            if kind == kind::DEFERRED {
                summary.deferred_instructions += work;
            }
        }
        if kind != kind::BACKGROUND {
            self.clock += work;
        }
        work
    }

    /// On whose behalf locks are taken now.
    fn who(&self) -> Who {
        match self.thread {
            Some(_) => Who::THREAD,
            None => Who {
                cpu: self.own.summary.cpu,
                container: self.container,
            },
        }
    }

    /// A lock function is entered, which was called at `taker`.
    pub fn enter_lock(&mut self, kind: Kind, taker: u64) {
        if self.works() {
            let by = self.who();
            let locks = self.tracker.locks();
            locks.by = by;
            locks.enter(kind, taker);
        }
    }

    /// A function that waits is entered, which was called at `caller`.
    pub fn enter_wait(&mut self, function: u16, caller: u64, what: hooks::Waits) {
        if self.foreground() {
            let clock = self.clock;
            let locks = self.tracker.locks();
            locks.enter_wait(function, caller, what, clock);
        }
    }

    /// And left.
    pub fn leave_wait(&mut self, function: u16, takes: bool, sums: &mut Sums) {
        if self.foreground() {
            let (clock, by) = (self.clock, self.who());
            let locks = self.tracker.locks();
            locks.by = by;
            locks.leave_wait(function, takes, clock, sums);
        }
    }

    /// Something is written to `address` by a function that gives a lock back.
    pub fn give(&mut self, address: u64) {
        if self.works() {
            self.tracker.locks().give(address);
        }
    }

    /// Something is written to `address`, by a lock function or another one. Whether other locks
    /// may be held for that.
    pub fn wrote(&mut self, address: u64, atomic: bool, in_lock: bool, sums: &mut Sums) -> bool {
        if !self.works() {
            return false;
        }
        let (clock, locks) = (self.clock, self.tracker.locks());
        if !in_lock {
            return locks.holds() && locks.write(address, clock, sums);
        }
        let takes = atomic && (locks.expects() || locks.holds());
        if takes {
            locks.acquire(address, clock, sums);
            locks.up(address, clock, sums);
        }
        takes
    }

    /// A function that takes a semaphore reads or writes at `address`.
    pub fn count(&mut self, address: u64, written: bool) {
        if self.works() && !self.tracker.on_own_stack(address) {
            self.tracker.locks().count(address, written);
        }
    }

    /// An instruction at `taker` sets a bit that may be a lock.
    pub fn set_bit(&mut self, address: u64, bit: Option<u8>, taker: u64) {
        if self.works() && !self.tracker.on_own_stack(address) {
            let (clock, by) = (self.clock, self.who());
            let locks = self.tracker.locks();
            locks.by = by;
            locks.set_bit(address, bit, taker, clock);
        }
    }

    /// Writes down what was kept back, as far as it was work.
    #[inline(never)]
    pub fn settle(&mut self, outcome: Outcome, counting: &mut Counting) {
        self.follow(counting);
        let party = match self.thread {
            None => &mut self.own,
            Some(index) => &mut self.threads[index],
        };
        let (context, kind) = (self.context, self.kind);
        let (tables, owners, cycles) = (
            &mut party.tables,
            &mut counting.owners,
            &mut counting.cycles,
        );
        cycles.hold(self.counted, tables, owners);
        let write = |events: &[Event]| cycles.count(events, context, kind, tables, owners);
        let waited = match outcome {
            Outcome::Work => {
                self.waits.clear(write);
                self.counted = self.set;
                return;
            }
            Outcome::Left => self.waits.settle(write),
            Outcome::Full => self.waits.full(write),
        };
        // Nothing is kept back any more, or it was all counted up to what is.
        self.counted = match self.waits.is_pending() {
            true => cycles.held(tables),
            false => self.set,
        };
        self.clock -= waited;
        if self.kind == kind::DEFERRED {
            party.summary.background_instructions -= waited;
            party.summary.deferred_instructions -= waited;
            return;
        }
        party.summary.kernel_instructions -= waited;
        party.summary.spinning_instructions += waited;
    }

    /// Keeps work for the workload back.
    #[inline(always)]
    pub fn push(&mut self, event: Event, counting: &mut Counting) {
        if !self.waits.push(event) {
            self.settle(Outcome::Full, counting);
        }
    }

    /// Says so among the events if other locks are held than before; `taken`: the next one
    /// takes a lock.
    #[inline(always)]
    pub fn mark(&mut self, taken: bool, sums: &mut Sums, counting: &mut Counting) {
        if self.records() && self.works() {
            let locks = self.tracker.locks();
            let set = match locks.holds() {
                true => sums.sets.number(locks.exclusive()),
                false => under::NONE,
            };
            let both = locks.numbers().zip(&self.holds);
            let kept = both.take_while(|(now, then)| now == *then).count();
            let held = Held::of(set, &sums.sets);
            // One that is taken again was given back before, whether that was seen or not.
            if self.set != held || kept < held.count as usize {
                self.holds.truncate(kept);
                self.holds.extend(locks.numbers().skip(kept));
                self.set = held;
                let what = What::new(0, 0, if taken { LOCKS | ATOMIC } else { LOCKS });
                let address = held.pack(kept);
                self.push(Event { address, what }, counting);
            }
        }
    }

    /// An access of the task that runs.
    #[inline(always)]
    pub fn event(&self, address: u64, what: What) -> Event {
        let what = if self.tracker.on_own_stack(address) {
            what.with(OWN_STACK)
        } else {
            what
        };
        Event { address, what }
    }

    /// Keeps an access for the workload back.
    #[inline(always)]
    pub fn keep(&mut self, address: u64, what: What, counting: &mut Counting) {
        self.push(self.event(address, what), counting);
    }

    /// From here on what the party at hand does is what is followed.
    #[inline(always)]
    fn follow(&mut self, counting: &mut Counting) {
        let party = self.party().tables.number();
        if counting.cycles.party() != party {
            self.leave(counting);
            counting.cycles.follow(party);
        }
    }

    /// What one of its parties does again and again is made up for.
    pub fn leave(&mut self, counting: &mut Counting) {
        let followed = counting.cycles.party();
        if followed == NOBODY {
            return;
        }
        let parties = std::iter::once(&mut self.own).chain(&mut self.threads);
        let tables = parties.map(|party| &mut party.tables);
        if let Some(tables) = tables.into_iter().find(|t| t.number() == followed) {
            counting.cycles.settle(tables, &mut counting.owners);
        }
    }

    /// A stretch of the party at hand begins.
    pub fn begin(&mut self, counting: &mut Counting) {
        self.follow(counting);
        let tables = &mut self.party().tables;
        counting.cycles.begin(tables, &mut counting.owners);
    }

    /// Counts an access that is not kept back.
    pub fn count_now(&mut self, event: Event, counting: &mut Counting) {
        self.leave(counting);
        let (context, kind) = (self.context, self.kind);
        let tables = &mut self.party().tables;
        tables.count(&[event], context, kind, &mut counting.owners);
    }

    /// The account to write to.
    #[inline(always)]
    pub fn party(&mut self) -> &mut Party {
        match self.thread {
            None => &mut self.own,
            Some(index) => &mut self.threads[index],
        }
    }
}

#[cfg(test)]
#[path = "cpu_tests.rs"]
mod tests;
