// SPDX-License-Identifier: GPL-2.0-or-later
//! What the recorder is told of who called, and when.

use crate::held::Moment;
use crate::hooks::Role;
use crate::locks::Seen;
use crate::site::NO_LEAF;
use crate::state::State;

impl State {
    /// What is seen when the running CPU leaves the task that it runs.
    pub fn seen(&mut self) -> Seen {
        let now = self.now();
        let tried = self.here().tracker.locks().trying();
        let progress = tried.map(|lock| self.progress(lock, &now));
        let (progress, had) = progress.unwrap_or_default();
        Seen {
            now,
            progress,
            had,
            due: None,
        }
    }

    /// The same when it goes on with it.
    pub fn seen_again(&mut self) -> Seen {
        let (cpu, each) = (self.current as usize, self.locks.instruction_ns);
        let mut seen = self.seen();
        if let Some(by) = self.here().tracker.locks().woken.take() {
            let now = &seen.now;
            seen.due = self.delays.due(by, cpu, now.ns, &now.ran, each);
        }
        seen
    }

    /// The running CPU's own timer interrupts it.
    pub fn timer_came(&mut self) {
        let cpu = self.current as usize;
        self.cpu(self.current);
        let expires = self.clock.as_mut().and_then(|clock| clock.expires(cpu));
        if let Some(expires) = expires {
            let ran = self.ran();
            self.delays.interrupt(cpu, expires, &ran);
        }
    }

    /// For how long a lock has been held until now, by one after the other, in nanoseconds, and
    /// whether anybody who is known has it.
    fn progress(&mut self, lock: u64, now: &Moment) -> (u64, bool) {
        let each = self.locks.instruction_ns;
        let done = self.locks.done(lock);
        let running: Vec<u64> = self.cpus.iter().map(|c| c.tracker.stack()).collect();
        let parked = self.tasks.parked(&running);
        let parked = parked.filter_map(|locks| locks.progress(lock, done, None, now, each));
        let running = self.cpus.iter();
        let running = running.filter_map(|c| {
            let locks = c.tracker.held();
            locks.progress(lock, done, Some(c.clock), now, each)
        });
        let most = parked.chain(running).max();
        (most.unwrap_or(done).max(done), most.is_some())
    }

    /// What time it is, as the running CPU has it. Nothing passes where that can't be read.
    pub fn now(&mut self) -> Moment {
        let cpu = self.current as usize;
        let read = self.clock.as_mut().and_then(|clock| clock.read(cpu));
        if read.is_none() {
            self.clock = None;
        }
        Moment {
            ns: read.unwrap_or(0),
            ran: self.ran(),
        }
    }

    /// Instructions that each CPU has run.
    fn ran(&self) -> Vec<u64> {
        self.cpus.iter().map(|c| c.ran).collect()
    }

    /// The call that led into the function whose entry has this number, on the vCPU that
    /// runs: of one that another such function made, the call that led there.
    pub fn caller(&mut self, entry: u16) -> u64 {
        let mut call = *self.here().tracker.caller(entry);
        for _ in 0..3 {
            let hooks = &self.hooks;
            let outer = *self.wrapped.entry(call).or_insert_with(|| {
                let mut around = hooks.containing(call);
                around
                    .find_map(|h| match h.role {
                        Role::Leaf(n) => Some(n),
                        Role::Sleep { entry, .. } => Some(entry),
                        _ => None,
                    })
                    .unwrap_or(NO_LEAF)
            });
            if outer == NO_LEAF || outer == entry {
                break;
            }
            call = *self.here().tracker.caller(outer);
        }
        call
    }
}
