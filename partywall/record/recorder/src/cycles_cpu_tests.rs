// SPDX-License-Identifier: GPL-2.0-or-later
//! CPUs whose work is followed, beside ones of which each round is counted.

use super::*;
use crate::context::{self, kind_of};
use crate::cpu::{Cpu, Outcome, Party};
use crate::event::{What, BLOCK, STORE};
use crate::format::kind;
use crate::held::{Kind, Sums};
use tests::{said, Chance};

/// What the running CPU does.
#[derive(Clone, Debug)]
enum Act {
    /// A system call, from the program.
    Call(u16),
    /// Work that a thread of the kernel does for somebody.
    Charged(usize),
    Softirq,
    Irq(Vec<u64>),
    Block(u64),
    Access(u64, bool),
    Lock(u64),
    /// The program's memory is written.
    Step,
    /// Another CPU runs.
    Switch(usize),
}

struct World {
    cpus: Vec<Cpu>,
    counting: Counting,
    sums: Sums,
    current: usize,
    /// Nothing is ever known of what was done last.
    forgets: bool,
}

impl World {
    /// Three CPUs of two containers, on each of which two threads work for others.
    fn new(forgets: bool) -> World {
        let mut counting = Counting::default();
        let cpus = (0..3u32).map(|cpu| {
            let own = counting.owners.number(Some(cpu / 2));
            let mut c = Cpu::new(Party::new(8, own, 0, cpu, 0), cpu / 2, 0x4000);
            for thread in 1..3u64 {
                let number = counting.owners.number(None);
                let party = Party::new(8, number, 0, cpu, thread << 20);
                c.threads.push(party);
            }
            c.open = true;
            c
        });
        World {
            cpus: cpus.collect(),
            counting,
            sums: Sums::new(2),
            current: 0,
            forgets,
        }
    }

    /// As `State::refresh` does it.
    fn goes_to(&mut self, context: u16, thread: Option<usize>) {
        let c = &mut self.cpus[self.current];
        if c.waits.is_pending() {
            if context == context::IRQ {
                c.settle(Outcome::Left, &mut self.counting);
            } else if context != c.context {
                c.settle(Outcome::Work, &mut self.counting);
            }
        }
        (c.context, c.kind, c.thread) = (context, kind_of(context), thread);
        c.mark(false, &mut self.sums, &mut self.counting);
    }

    fn access(&mut self, address: u64, store: bool) {
        let c = &mut self.cpus[self.current];
        let number = (address >> 3) as u32 & 3;
        let what = What::new(number, 8, if store { STORE } else { 0 });
        let given = store && c.wrote(address, false, false, &mut self.sums);
        if c.kind == kind::BACKGROUND {
            let event = c.event(address, what);
            c.count_now(event, &mut self.counting);
            return;
        }
        c.keep(address, what, &mut self.counting);
        if given {
            c.mark(false, &mut self.sums, &mut self.counting);
        }
    }

    fn lock(&mut self, address: u64) {
        let c = &mut self.cpus[self.current];
        if !c.works() {
            return;
        }
        c.enter_lock(Kind::Exclusive, 0x77);
        let taken = c.wrote(address, true, true, &mut self.sums);
        if taken {
            c.mark(true, &mut self.sums, &mut self.counting);
        }
        let what = What::new(5, 4, STORE | crate::event::ATOMIC);
        c.keep(address, what, &mut self.counting);
        if taken {
            c.mark(false, &mut self.sums, &mut self.counting);
        }
    }

    fn does(&mut self, act: &Act) {
        let at = self.current;
        match act {
            Act::Call(number) => {
                self.cpus[at].settle(Outcome::Work, &mut self.counting);
                self.cpus[at].tracker.user();
                self.goes_to(context::USER, None);
                self.goes_to(context::SYSCALL + number, None);
                self.cpus[at].begin(&mut self.counting);
            }
            Act::Charged(thread) => {
                self.goes_to(context::CHARGED, Some(*thread));
                self.cpus[at].begin(&mut self.counting);
            }
            Act::Softirq => self.goes_to(context::DEFERRED + 3, self.cpus[at].thread),
            Act::Irq(lines) => {
                let before = (self.cpus[at].context, self.cpus[at].thread);
                self.goes_to(context::IRQ, None);
                lines.iter().for_each(|address| self.access(*address, true));
                self.goes_to(before.0, before.1);
            }
            Act::Block(instructions) => {
                let c = &mut self.cpus[at];
                c.run(*instructions, false);
                if c.works() {
                    let (address, what) = (*instructions, What::new(9, 0, BLOCK));
                    c.push(Event { address, what }, &mut self.counting);
                }
            }
            Act::Access(address, store) => self.access(*address, *store),
            Act::Lock(address) => self.lock(*address),
            Act::Step if self.cpus[at].waits.is_pending() => self.cpus[at].waits.step(),
            Act::Step => {}
            Act::Switch(to) if *to != at => {
                self.cpus[at].settle(Outcome::Left, &mut self.counting);
                self.cpus[at].leave(&mut self.counting);
                self.current = *to;
                self.counting.owners.take_over();
            }
            Act::Switch(_) => {}
        }
        if self.forgets {
            self.cpus[self.current].leave(&mut self.counting);
        }
    }

    /// All that a recording has of them.
    fn ends(&mut self) -> Vec<String> {
        let counting = &mut self.counting;
        self.cpus[self.current].leave(counting);
        let mut rows = Vec::new();
        for c in &mut self.cpus {
            c.settle(Outcome::Left, counting);
            c.leave(counting);
            rows.push(format!("{} of {}", c.clock, c.container));
            for party in std::iter::once(&mut c.own).chain(&mut c.threads) {
                let s = &party.summary;
                rows.push(format!(
                    "{} {}",
                    s.kernel_instructions, s.spinning_instructions
                ));
                rows.extend(said(&mut party.tables));
            }
        }
        rows
    }
}

fn act(chance: &mut Chance, lines: u64) -> Act {
    let address = 0x1_0000 + chance.below(lines) * 64 + chance.below(8) * 8;
    let lock = 0x1_0000 + chance.below(10) * 8;
    match chance.below(24) {
        0..=2 => Act::Block(1 + chance.below(6000)),
        3..=4 => Act::Lock(lock),
        5..=6 => Act::Access(lock, true),
        7 => Act::Step,
        8 => Act::Softirq,
        _ => Act::Access(address, chance.one_in(3)),
    }
}

/// Loops of one to three stretches, into which something else comes now and then.
fn program(chance: &mut Chance) -> Vec<Act> {
    let mut all = Vec::new();
    for _ in 0..6 {
        let lines = [2, 12, 40, 200][chance.below(4) as usize];
        let mut round = Vec::new();
        for _ in 0..1 + chance.below(3) {
            let charged = chance.one_in(6);
            round.push(match charged {
                true => Act::Charged(chance.below(2) as usize),
                false => Act::Call(chance.below(2) as u16),
            });
            round.extend((0..1 + chance.below(60)).map(|_| act(chance, lines)));
            if charged && chance.one_in(3) {
                round.push(Act::Irq(vec![0x9_0000]));
            }
        }
        let times = [2, 4, 9, 25][chance.below(4) as usize];
        let mut part: Vec<Act> = (0..times).flat_map(|_| round.clone()).collect();
        for _ in 0..chance.below(4) {
            let at = chance.below(part.len() as u64) as usize;
            let other = match chance.below(4) {
                0 => Act::Irq(vec![0x1_0000, 0x8_0000]),
                1 => Act::Irq(Vec::new()),
                2 => Act::Access(0x1_0000 + chance.below(lines) * 64, true),
                _ => Act::Switch(chance.below(3) as usize),
            };
            part.insert(at, other);
        }
        all.extend(part);
        all.push(Act::Switch(chance.below(3) as usize));
    }
    all
}

#[test]
fn cpus_that_are_followed_have_the_same_as_those_of_which_each_round_is_counted() {
    let mut at_once = 0;
    for seed in 1..150 {
        let program = program(&mut Chance(seed * 0x9e37_79b9 + 3));
        let [mut one, mut other] = [true, false].map(World::new);
        for act in &program {
            one.does(act);
            other.does(act);
        }
        assert_eq!(one.ends(), other.ends(), "seed {}", seed);
        assert_eq!(one.counting.cycles.at_once, 0);
        at_once += other.counting.cycles.at_once;
    }
    assert!(at_once > 500, "{} rounds", at_once);
}
