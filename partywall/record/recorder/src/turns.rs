// SPDX-License-Identifier: GPL-2.0-or-later
//! Evidence that a party comes back to a line, however the emulator orders CPUs.
//!
//! The emulator runs one CPU for long before the next, so that who follows whom is
//! an accident. What is none is where in a party's *own* work its visits lie: a
//! counter that all share is visited all through it, and memory that one party lets
//! go of and another takes up in one stretch of each. The other evidence is what the
//! emulator's order does show: a party visits, another one does, and the first again.
//! How often that is to be expected is told by in how many slices of the emulator's
//! each party has turns: it may have many of them in one.

use crate::slots::{more, Slot, Table};

/// Instructions of a long system call after which a new stretch begins.
pub const STRETCH: u64 = 1 << 14;

/// How far a party has come in its own work, in stretches.
///
/// A stretch begins with each system call and exception of user code, with each
/// call of a charged function, and within a long one every `STRETCH` instructions.
#[derive(Default)]
pub struct Progress {
    stretch: u32,
    run: u64,
}

impl Progress {
    /// A stretch begins.
    pub fn begin(&mut self) {
        self.stretch = self.stretch.saturating_add(1);
        self.run = 0;
    }

    /// `instructions` of the foreground are run.
    #[inline(always)]
    pub fn work(&mut self, instructions: u64) {
        self.run += instructions;
        if self.run >= STRETCH {
            self.begin();
        }
    }

    /// The number of the stretch that runs; never 0.
    #[inline(always)]
    pub fn now(&self) -> u32 {
        self.stretch.saturating_add(1)
    }
}

/// What is known of one party's coming back to one line.
#[derive(Clone, Copy)]
pub struct Turns {
    last: u32,
    last_slice: u32,
    /// How often the line had gone from container to container at the visit before.
    gone: u32,
    /// Stretches of the party's own work with a visit of the line.
    pub turns: u32,
    /// Visits between which and the party's one before another party visited.
    pub returns: u32,
    /// Of these, those between which and the one before another container visited.
    pub crossings: u32,
    /// Slices of the emulator's with a visit of the party that is a new turn: what is
    /// cut by a slice's end, or waits through several, is in one.
    pub slices: u32,
}

impl Turns {
    /// Nothing seen yet.
    pub const NONE: Turns = Turns {
        last: 0,
        last_slice: 0,
        gone: 0,
        turns: 0,
        returns: 0,
        crossings: 0,
        slices: 0,
    };

    /// A visit begins in stretch `now` of the party's work and in `slice` of the
    /// emulator's; `before`: who was there before. `times`: in so many rounds, all in one slice.
    #[inline(always)]
    pub fn visit(&mut self, now: u32, slice: u32, before: Before, times: u32) {
        if self.turns != 0 && before.others {
            self.returns = self.returns.saturating_add(1);
            if self.gone != before.gone {
                self.crossings = self.crossings.saturating_add(1);
            }
        }
        self.gone = before.gone;
        if self.last != now {
            self.last = now;
            self.turns = more(self.turns, times);
            if self.last_slice != slice {
                self.last_slice = slice;
                self.slices = self.slices.saturating_add(1);
            }
        }
    }
}

/// Who was at a line before a visit.
#[derive(Clone, Copy)]
pub struct Before {
    /// Another party was the last one there.
    pub others: bool,
    /// How often the line has gone from one container to another, this visit included.
    pub gone: u32,
}

/// No party's number.
pub const NOBODY: u32 = 0;

#[derive(Clone, Copy)]
struct Owner {
    key: u64,
    party: u32,
    gone: u32,
}

impl Slot for Owner {
    #[inline(always)]
    fn key(&self) -> u64 {
        self.key
    }
}

/// Who worked last, and who before whom, in which slices of the emulator's.
#[derive(Clone, Copy, Default)]
struct Lately {
    last: (u32, u32),
    before: (u32, u32),
}

impl Lately {
    /// `who` works in a slice. Returns the latest one in which somebody else did, 0 for none.
    #[inline(always)]
    fn works(&mut self, who: u32, slice: u32) -> u32 {
        if self.last.0 != who {
            self.before = self.last;
        }
        self.last = (who, slice);
        self.before.1
    }
}

/// In how many of the emulator's slices a party did its own work.
#[derive(Clone, Copy, Default)]
pub struct Slices {
    last: u32,
    pub count: u32,
    /// Of these, those between which and its one before another CPU did work of its own,
    /// and those between which one of another container's did.
    pub after_others: u32,
    pub after_containers: u32,
}

/// Which party visited each line last; each kind of work has one.
pub struct Owners {
    last: Table<Owner>,
    /// Of each party, by its number, the number of its container; nobody is in none.
    containers: Vec<u32>,
    slice: u32,
    cpus: Lately,
    worked: Lately,
}

impl Default for Owners {
    fn default() -> Self {
        Owners {
            last: Table::default(),
            containers: vec![NOWHERE],
            slice: 0,
            cpus: Lately::default(),
            worked: Lately::default(),
        }
    }
}

/// The number of no container, and less than all by which parties in none go.
const NOWHERE: u32 = u32::MAX;
const SOMEWHERE: u32 = NOWHERE / 2;

impl Owners {
    /// A number for a new party, which belongs to this container. One that belongs to none
    /// is by itself.
    pub fn number(&mut self, container: Option<u32>) -> u32 {
        let number = self.containers.len() as u32;
        self.containers.push(container.unwrap_or(NOWHERE - number));
        number
    }

    /// Where the line of `key` is.
    pub fn place(&mut self, key: u64) -> u32 {
        let nobody = Owner {
            key,
            party: NOBODY,
            gone: 0,
        };
        self.last.place(&nobody, 0)
    }

    /// `party` visits the line at `place`; who did before.
    #[inline(always)]
    pub fn visit(&mut self, place: u32, party: u32) -> Before {
        let owner = self.last.at(place);
        let before = std::mem::replace(&mut owner.party, party);
        let others = before != party && before != NOBODY;
        if others && self.containers[before as usize] != self.containers[party as usize] {
            owner.gone = owner.gone.saturating_add(1);
        }
        Before {
            others,
            gone: owner.gone,
        }
    }

    /// The emulator runs another vCPU: a slice begins.
    #[inline(always)]
    pub fn take_over(&mut self) {
        self.slice += 1;
    }

    /// The number of the slice that runs; never 0.
    #[inline(always)]
    pub fn slice(&self) -> u32 {
        self.slice + 1
    }

    /// `party` does its own work; `slices`: in which it did before.
    #[inline(always)]
    pub fn work(&mut self, party: u32, slices: &mut Slices) {
        let slice = self.slice();
        if slices.last == slice {
            return;
        }
        let container = match self.containers.get(party as usize) {
            Some(&container) if container < SOMEWHERE => container,
            _ => return,
        };
        // 0 is nobody's number, and a container's.
        let others = self.cpus.works(party, slice);
        let containers = self.worked.works(container + 1, slice);
        slices.count += 1;
        slices.after_others += (slices.last != 0 && others > slices.last) as u32;
        slices.after_containers += (slices.last != 0 && containers > slices.last) as u32;
        slices.last = slice;
    }

    /// Host memory held, in bytes.
    pub fn bytes(&self) -> usize {
        self.last.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visit(owners: &mut Owners, key: u64, party: u32) -> Before {
        let place = owners.place(key);
        owners.visit(place, party)
    }

    /// Nobody was there before, or another party of the same container.
    fn by(others: bool) -> Before {
        Before { others, gone: 0 }
    }

    #[test]
    fn visits_in_one_system_call_are_one_turn() {
        let (mut progress, mut line) = (Progress::default(), Turns::NONE);
        for _ in 0..3 {
            progress.begin();
            for _ in 0..10 {
                progress.work(100);
                line.visit(progress.now(), 1, by(false), 1);
            }
        }
        assert_eq!((line.turns, line.returns), (3, 0));
    }

    #[test]
    fn system_calls_without_a_visit_are_no_turns() {
        let (mut progress, mut line) = (Progress::default(), Turns::NONE);
        line.visit(progress.now(), 1, by(false), 1);
        for _ in 0..50 {
            progress.begin();
        }
        assert_eq!(line.turns, 1);
        line.visit(progress.now(), 1, by(false), 1);
        assert_eq!(line.turns, 2);
    }

    #[test]
    fn a_lock_taken_all_through_a_long_system_call_is_come_back_to() {
        let (mut progress, mut line) = (Progress::default(), Turns::NONE);
        progress.begin();
        for _ in 0..300 {
            progress.work(1000);
            line.visit(progress.now(), 1, by(false), 1);
        }
        let stretches = 300_000 / STRETCH as u32;
        assert!((stretches - 1..=stretches + 2).contains(&line.turns));
    }

    #[test]
    fn what_is_handed_on_once_is_returned_to_by_nobody() {
        let mut owners = Owners::default();
        let (a, b) = (owners.number(None), owners.number(None));
        let (mut of_a, mut of_b) = (Turns::NONE, Turns::NONE);
        for _ in 0..5 {
            of_a.visit(1, 1, visit(&mut owners, 0x81, a), 1);
        }
        for _ in 0..5 {
            of_b.visit(1, 2, visit(&mut owners, 0x81, b), 1);
        }
        assert_eq!((of_a.returns, of_b.returns), (0, 0));
        of_a.visit(2, 3, visit(&mut owners, 0x81, a), 1);
        of_b.visit(2, 4, visit(&mut owners, 0x83, b), 1); // another line
        assert_eq!((of_a.returns, of_b.returns), (1, 0));
    }

    #[test]
    fn visits_of_many_turns_in_one_slice_are_in_one() {
        let (mut owners, mut line) = (Owners::default(), Turns::NONE);
        for turn in 1..=9 {
            if turn % 3 == 0 {
                owners.take_over();
                owners.take_over();
            }
            line.visit(turn, owners.slice(), by(false), 1);
        }
        assert_eq!((line.turns, line.slices), (9, 4));
    }

    /// In how many slices each party worked, when these come in this order, and in how many
    /// after others, and other containers. 0 is a slice in which nobody worked.
    fn worked(owners: &mut Owners, order: &[u32]) -> Vec<(u32, u32, u32)> {
        let mut slices = [Slices::default(); 8];
        for party in order {
            owners.take_over();
            for _ in 0..3 * (*party).min(1) {
                owners.work(*party, &mut slices[*party as usize]);
            }
        }
        let told = slices.iter();
        told.map(|s| (s.count, s.after_others, s.after_containers))
            .collect()
    }

    #[test]
    fn who_works_in_turn_with_others_is_known() {
        let mut owners = Owners::default();
        let (a, b) = (owners.number(Some(0)), owners.number(Some(0)));
        let (c, thread) = (owners.number(Some(1)), owners.number(None));
        let found = worked(&mut owners, &[a, b, a, c, a, 0, a, thread, a, b, c, c]);
        assert_eq!(found[a as usize], (5, 2, 1));
        assert_eq!(found[b as usize], (2, 1, 1));
        assert_eq!(found[c as usize], (3, 1, 1));
        assert_eq!(found[thread as usize], (0, 0, 0));
    }

    #[test]
    fn whose_windows_come_one_after_another_work_in_slices_after_nobody() {
        let mut owners = Owners::default();
        let (a, b) = (owners.number(Some(0)), owners.number(Some(1)));
        let found = worked(&mut owners, &[a, a, 0, a, b, 0, b, b, b]);
        assert_eq!(found[a as usize], (3, 0, 0));
        assert_eq!(found[b as usize], (4, 0, 0));
    }

    #[test]
    fn a_turn_that_goes_on_in_the_next_slice_is_in_one() {
        let mut line = Turns::NONE;
        for slice in 1..=5 {
            line.visit(1, slice, by(slice > 1), 1);
        }
        assert_eq!((line.turns, line.returns, line.slices), (1, 4, 1));
    }

    #[test]
    fn the_first_visitor_of_a_line_has_nobody_before_it() {
        let mut owners = Owners::default();
        let (a, b) = (owners.number(None), owners.number(None));
        assert!(!visit(&mut owners, 0x81, a).others);
        assert!(visit(&mut owners, 0x81, b).others);
        assert!(!visit(&mut owners, 0x81, b).others);
    }

    /// Visits of parties, by their numbers in order; of each its returns and crossings.
    fn come_back(owners: &mut Owners, order: &[u32]) -> Vec<(u32, u32)> {
        let mut lines = [Turns::NONE; 8];
        for (turn, party) in order.iter().enumerate() {
            let before = visit(owners, 0x81, *party);
            lines[*party as usize].visit(turn as u32 + 1, 1, before, 1);
        }
        lines.iter().map(|t| (t.returns, t.crossings)).collect()
    }

    #[test]
    fn who_comes_back_after_its_own_container_alone_has_not_crossed() {
        let mut owners = Owners::default();
        let (a, b) = (owners.number(Some(0)), owners.number(Some(0)));
        let found = come_back(&mut owners, &[a, b, a, b, a]);
        assert_eq!(found[a as usize], (2, 0));
        assert_eq!(found[b as usize], (1, 0));
    }

    #[test]
    fn who_comes_back_has_crossed_if_another_container_was_there_whoever_was_last() {
        let mut owners = Owners::default();
        let (a, b) = (owners.number(Some(0)), owners.number(Some(0)));
        let other = owners.number(Some(1));
        let found = come_back(&mut owners, &[a, b, other, a, b, a, b, other]);
        // The second of the same container comes after the first one, both after the other's.
        assert_eq!(found[a as usize], (2, 1));
        assert_eq!(found[b as usize], (2, 1));
        assert_eq!(found[other as usize], (1, 1));
    }

    #[test]
    fn parties_of_no_container_are_others_to_all_and_to_each_other() {
        let mut owners = Owners::default();
        let own = owners.number(Some(0));
        let (a, b) = (owners.number(None), owners.number(None));
        let found = come_back(&mut owners, &[own, a, own, a, b, a, b]);
        assert_eq!(found[own as usize], (1, 1));
        assert_eq!(found[a as usize], (2, 2));
        assert_eq!(found[b as usize], (1, 1));
    }
}
