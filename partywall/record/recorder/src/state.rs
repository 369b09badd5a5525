// SPDX-License-Identifier: GPL-2.0-or-later
//! What the callbacks work on: instructions, blocks, CPUs, and all of the rest.
//!
//! Guests are recorded with `thread=single`: one host thread runs all vCPUs,
//! translation included, so the state needs no lock and takes none. A block runs
//! to its end, or not, on the vCPU on which it began: who runs is asked once for
//! each, and not taken from what QEMU tells the other callbacks (see vcpu.rs).

use crate::abi::{self, PluginId};
use crate::callbacks::translate_anew;
use crate::clock::Clock;
use crate::context::{self, kind_of, Tasks};
use crate::cpu::{Cpu, Outcome, Party};
use crate::cycles::{Counting, Cycles};
use crate::delays::Delays;
use crate::event::{What, BLOCK, PAUSE};
use crate::format::Recording;
use crate::held::Sums;
use crate::hooks::Hooks;
use crate::site::{Infos, Site};
#[cfg(registers)]
use crate::vcpu::Running;
use std::collections::HashMap;
use std::os::raw::{c_int, c_uint};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Exit status of QEMU when the recorder gives up; its reason is on stderr.
const EXIT_RECORDER: c_int = 71;
pub const KERNEL_BIT: u64 = 1 << 63;

/// Blocks of kernel code between looks at how much memory the tables hold.
pub const CHECK_EVERY: u32 = 1 << 16;

/// One instrumented block of kernel code; interned likewise.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Block {
    pub instructions: u64,
    /// Address of the call that ends it, or of the jump that may be one; 0 if none does.
    pub call: u64,
    /// The leaf function that starts with it.
    pub enters: u16,
    /// A function that leaves something for later starts with it.
    pub leaves: bool,
    /// It waits for a lock, which is no time that another lock is held for.
    pub spins: bool,
    /// It has PAUSE in it.
    pub pauses: bool,
    /// Address of a string instruction that it starts or ends with; 0 if none.
    pub repeats: u64,
    pub ends_repeating: u64,
    /// As an event, once it is interned.
    pub what: What,
}

impl Block {
    /// One more step, and nothing else, of the string instruction at `repeating`.
    #[inline(always)]
    pub fn again(&self, repeating: u64) -> bool {
        self.instructions == 1 && self.repeats != 0 && self.repeats == repeating
    }
}

pub struct State {
    pub id: PluginId,
    pub out: PathBuf,
    pub windows: u32,
    /// Windows are run again and again, each round with a recording of its own.
    pub rounds: bool,
    /// What was recorded is written when the guest says so, after its last window.
    pub late: bool,
    /// The round that runs, from 0 on; None before the first, or if there is one alone.
    pub round: Option<u32>,
    /// vCPUs of the machine, and the one that runs.
    pub vcpus: usize,
    pub current: c_uint,
    #[cfg(registers)]
    pub running: Option<Running>,
    /// CPUs of each container, which follow each other.
    pub container_cpus: u32,
    pub visit_distance: u64,
    pub memory_limit: usize,
    pub record: bool,
    pub hooks: Hooks,
    pub tasks: Tasks,
    pub cpus: Vec<Cpu>,
    /// Address of an instruction, and of the call into its leaf function or 0.
    pub sites: Vec<(u64, u64)>,
    pub interned: HashMap<(u64, bool), &'static Site>,
    /// Those of an index, but for what is another caller's.
    pub known: Vec<Option<&'static Site>>,
    pub infos: Infos,
    pub called: HashMap<(u32, u64), u32>,
    pub blocks: HashMap<Block, &'static Block>,
    pub locks: Sums,
    /// The guest's time; None if it can't be read.
    pub clock: Option<Clock>,
    /// When timers were to wake whom they wake.
    pub delays: Delays,
    /// Calls in functions that only call a lock function, by the number of such a function's entry.
    pub wrapped: HashMap<u64, u16>,
    pub counting: Counting,
    /// A window is open, or was, and others of its round are to come.
    pub active: bool,
    /// All code is translated with instrumentation.
    pub instrumented: bool,
    /// How long QEMU had worked when the first window began.
    pub started: Option<u64>,
    pub closed: u32,
    pub blocks_until_check: u32,
}

static mut STATE: *mut State = std::ptr::null_mut();

/// Sets the state, before any callback is made.
pub fn install(state: State) {
    // SAFETY: QEMU installs a plugin on one thread, before it runs anything.
    unsafe { STATE = Box::into_raw(Box::new(state)) };
}

pub fn state() -> &'static mut State {
    // SAFETY: set once by install, before any callback; one thread makes them all.
    unsafe { &mut *STATE }
}

pub fn give_up(why: &str) -> ! {
    eprintln!("partywall recorder: {}", why);
    // SAFETY: plain process exit; QEMU's own exit handlers could wait for us.
    unsafe { abi::_exit(EXIT_RECORDER) }
}

/// Nanoseconds that QEMU's threads have had a processor for, together.
fn worked() -> u64 {
    let mut time = abi::TimeSpec::default();
    // SAFETY: the kernel fills what is pointed to.
    unsafe { abi::clock_gettime(abi::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.seconds as u64 * 1_000_000_000 + time.nanoseconds as u64
}

/// Holds the guest until a file is taken away.
fn hold_while(file: &Path) {
    while file.exists() {
        std::thread::sleep(Duration::from_millis(2));
    }
}

impl State {
    /// Finds out which vCPU runs, at the beginning of a block or at a marker.
    #[cfg(not(registers))]
    #[inline(always)]
    pub fn arrive(&mut self, told: c_uint, _user: bool) -> c_uint {
        self.take_over(told);
        told
    }

    #[cfg(registers)]
    #[inline(always)]
    pub fn arrive(&mut self, _told: c_uint, user: bool) -> c_uint {
        if self.vcpus > 1 {
            let (percpu, vcpus) = (self.hooks.percpu, self.vcpus);
            let running = self.running.get_or_insert_with(|| {
                Running::new(percpu, vcpus)
                    .unwrap_or_else(|why| give_up(&format!("CPUs can't be told apart: {}", why)))
            });
            match running.cpu(user) {
                Some(cpu) => self.take_over(cpu as c_uint),
                None => give_up("CPUs can't be told apart: GS is no CPU's own memory"),
            };
        }
        self.current
    }

    /// Whether an access is the CPU's on which a block was last seen to begin.
    ///
    /// QEMU before 8.0 leaves the callback of a jump that ends a block in force: of a CPU whose
    /// turn it is, what it pushes to take an interrupt comes by that, before any block does. It
    /// is its own stack, nobody else's. Versions that can't tell the CPU have none of that.
    #[inline(always)]
    pub fn is_here(&self, told: c_uint) -> bool {
        cfg!(registers) || told == self.current
    }

    /// `cpu` runs from here on.
    #[inline(always)]
    fn take_over(&mut self, cpu: c_uint) {
        if cpu != self.current {
            if let Some(c) = self.cpus.get_mut(self.current as usize) {
                c.settle(Outcome::Left, &mut self.counting);
                c.leave(&mut self.counting);
            }
            self.current = cpu;
            self.counting.owners.take_over();
        }
    }

    #[inline(always)]
    pub fn cpu(&mut self, index: c_uint) -> &mut Cpu {
        if self.cpus.len() <= index as usize {
            self.add_cpus(index);
        }
        &mut self.cpus[index as usize]
    }

    /// The vCPU that runs.
    #[inline(always)]
    pub fn here(&mut self) -> &mut Cpu {
        self.cpu(self.current)
    }

    #[cold]
    pub fn add_cpus(&mut self, index: c_uint) {
        while self.cpus.len() <= index as usize {
            let cpu = self.cpus.len() as u32;
            let container = cpu / self.container_cpus;
            let number = self.counting.owners.number(Some(container));
            let own = Party::new(self.visit_distance, number, self.hooks.counts, cpu, 0);
            self.cpus
                .push(Cpu::new(own, container, self.hooks.stack_size));
        }
    }

    /// After a change of context: who works, and for whom.
    pub fn refresh(&mut self, cpu: c_uint) {
        let c = &mut self.cpus[cpu as usize];
        let next = c.tracker.current();
        if c.waits.is_pending() {
            if next == context::IRQ {
                c.settle(Outcome::Left, &mut self.counting);
            } else if next != c.context {
                c.settle(Outcome::Work, &mut self.counting);
            }
        }
        c.context = next;
        c.kind = kind_of(c.context);
        c.thread = c.tracker.working_thread(c.container, cpu).map(|stack| {
            let known = c.threads.iter().position(|t| t.summary.thread == stack);
            known.unwrap_or_else(|| {
                let counts = self.hooks.counts;
                let number = self.counting.owners.number(context::container_of(stack));
                c.threads
                    .push(Party::new(self.visit_distance, number, counts, cpu, stack));
                c.threads.len() - 1
            })
        });
        c.mark(false, &mut self.locks, &mut self.counting);
    }

    pub fn parties(&self) -> impl Iterator<Item = &Party> {
        let own = self.cpus.iter().map(|c| &c.own);
        own.chain(self.cpus.iter().flat_map(|c| &c.threads))
    }

    pub fn block(&mut self, block: Block) -> &'static Block {
        let number = self.blocks.len() as u32;
        self.blocks.entry(block).or_insert_with(|| {
            let flags = if block.pauses { BLOCK | PAUSE } else { BLOCK };
            let what = What::new(number, 0, flags);
            Box::leak(Box::new(Block { what, ..block }))
        })
    }

    /// The first window of a round opens: all code is instrumented from here on.
    pub fn begin(&mut self) {
        // Of what ran since the last round ended, nothing was followed.
        self.cpus.clear();
        self.tasks = Tasks::default();
        self.locks.clear();
        self.delays = Delays::default();
        self.counting = Counting::default();
        self.closed = 0;
        self.active = true;
        self.started = Some(worked());
        // Once for all rounds: QEMU before 8.0 may ask for callbacks of code that is gone
        // when code is translated anew that had some.
        if self.record && !self.instrumented {
            self.instrumented = true;
            translate_anew(self);
        }
    }

    /// The next round begins; windows of this one that are still open are dropped.
    pub fn next(&mut self) {
        self.active = false;
        self.cpus.clear();
        self.counting.cycles = Cycles::default();
        self.tasks = Tasks::default();
        self.delays = Delays::default();
        self.round = Some(self.round.map_or(0, |n| n + 1));
    }

    /// The last window is closed: write it all down. The guest stays as it is while its
    /// memory is read, until the recording is taken away or QEMU is ended.
    pub fn finish(&mut self) {
        let out = match self.round {
            None => self.out.clone(),
            Some(n) => self.out.with_extension(n.to_string()),
        };
        self.write(&out);
        hold_while(&out);
        self.active = false;
    }

    /// The guest is held, with what it has done since its windows, until that is seen.
    pub fn look(&self) {
        let out = self.out.with_extension("look");
        if let Err(why) = std::fs::write(&out, b"") {
            give_up(&format!("cannot write {}: {}", out.display(), why));
        }
        hold_while(&out);
    }

    fn write(&mut self, out: &Path) {
        let took = self.started.map_or(0, |begun| worked() - begun);
        let times = self.out.with_extension("times");
        if let Err(why) = std::fs::write(&times, format!("window_cpu_ns {}\n", took)) {
            give_up(&format!("cannot write {}: {}", times.display(), why));
        }
        if self.record {
            // What is done again is the running CPU's: it comes first.
            let here = self.current as usize;
            if let Some(c) = self.cpus.get_mut(here) {
                c.leave(&mut self.counting);
            }
            for c in &mut self.cpus {
                c.settle(Outcome::Left, &mut self.counting);
                c.leave(&mut self.counting);
                c.own.tables.close();
                c.threads.iter_mut().for_each(|t| t.tables.close());
            }
            let recording = Recording {
                visit_distance: self.visit_distance as u32,
                sites: &self.sites,
                stacks: &self.tasks.stacks,
                locks: &self.locks,
                left: &self.tasks.caused.left,
                clock: self.clock.is_some(),
                counts: self.hooks.counts,
                parties: self
                    .parties()
                    .map(|p| (p.summary.clone(), &p.tables))
                    .collect(),
            };
            if let Err(why) = recording.save(out) {
                give_up(&format!("cannot write {}: {}", out.display(), why));
            }
        } else if let Err(why) = std::fs::write(out, b"") {
            give_up(&format!("cannot write {}: {}", out.display(), why));
        }
    }

    pub fn check_memory(&mut self) {
        let tables: usize = self.parties().map(|p| p.tables.bytes()).sum();
        let known = self.locks.sets.bytes() + self.tasks.caused.bytes();
        let held = tables + self.counting.owners.bytes() + known;
        if held > self.memory_limit {
            give_up(&format!(
                "tables full: {} MiB held, {} allowed; use a shorter window or fewer containers",
                held >> 20,
                self.memory_limit >> 20
            ));
        }
    }
}
