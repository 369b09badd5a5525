// SPDX-License-Identifier: GPL-2.0-or-later
//! On whose behalf a CPU runs: which system call, interrupt, softirq, thread.
//!
//! The plugin interface of QEMU 7.2 shows neither registers nor memory, so the
//! context is followed from control flow: entry points of the kernel, returns
//! from them, and the stacks that `__switch_to_asm` leaves and enters.

use crate::caused::{self, Cause};
use crate::delays::Interrupt;
use crate::format::kind;
use crate::locks::Holder;
use std::collections::HashMap;

/// A context, as it stands in the recording.
pub type Context = u16;

// USER, IRQ and so on. CHARGED + n: inside the n-th function whose work the workload pays
// for. SYSCALL + n: inside system call n. DEFERRED + n: in a softirq that system call n
// ran. WORKED + n: in a work item that it queued. CALLED_BACK + n: in a callback of RCU
// that it left. WORK and CALLBACK: in those of which nobody was seen to be the cause.
// TASK + n: a thread that was not seen entering the kernel; n indexes stacks.
include!(concat!(env!("OUT_DIR"), "/context.rs"));
include!(concat!(env!("OUT_DIR"), "/thread.rs"));

/// True if work in this context belongs to the workload.
pub fn is_foreground(context: Context) -> bool {
    context < DEFERRED && !matches!(context, IRQ | SOFTIRQ | SCHEDULER | WORK | CALLBACK)
}

/// True for a softirq that a system call of the workload ran before it went on, and for what
/// is done later because of one.
pub fn is_deferred(context: Context) -> bool {
    (DEFERRED..TASK).contains(&context)
}

/// True for what is done later because of a system call: a work item, a callback of RCU.
#[inline(always)]
pub fn is_caused(context: Context) -> bool {
    (WORKED..TASK).contains(&context)
}

/// The kind of work that goes on in this context.
pub fn kind_of(context: Context) -> u64 {
    if is_foreground(context) {
        kind::FOREGROUND
    } else if is_deferred(context) {
        kind::DEFERRED
    } else {
        kind::BACKGROUND
    }
}

/// The container of which `Tracker::working_thread` tells; None if it is none.
pub fn container_of(thread: u64) -> Option<u32> {
    let number = thread & ((1 << CONTAINER_BITS) - 1);
    (number as u32).checked_sub(1)
}

/// What one task was doing: where it entered the kernel, and what came on top.
#[derive(Clone, Default)]
struct Nest {
    base: Context,
    top: Vec<Above>,
    /// The last call that was executed here.
    call: u64,
    /// The call that led into each leaf function last.
    callers: Vec<u64>,
    locks: Holder,
}

/// What came on top of what a task was doing.
#[derive(Clone)]
struct Above {
    context: Context,
    /// The last call executed below, and those into leaf functions: one may go on.
    call: u64,
    callers: Vec<u64>,
    /// Whose doing it is, if it is caused.
    cause: Option<Cause>,
}

impl Nest {
    fn current(&self) -> Context {
        self.top.last().map_or(self.base, |above| above.context)
    }

    fn push(&mut self, context: Context) {
        let (call, callers) = (self.call, self.callers.clone());
        self.top.push(Above {
            context,
            call,
            callers,
            cause: None,
        });
    }

    /// Whose doing it is, if that is some other one's than the task's.
    fn cause(&self) -> Option<Cause> {
        self.top.iter().rev().find_map(|above| above.cause)
    }
}

/// Contexts of all tasks, by the base address of their kernel stack.
#[derive(Default)]
pub struct Tasks {
    parked: HashMap<u64, Nest>,
    index: HashMap<u64, u16>,
    /// What is to be done later, and because of whom.
    pub caused: caused::Pending,
    /// Stack bases, in order of their index in `TASK + n`.
    pub stacks: Vec<u64>,
}

impl Tasks {
    /// A timer wakes the task of a stack, if there is one that no CPU runs.
    pub fn woken(&mut self, stack: u64, by: Interrupt) {
        if let Some(nest) = self.parked.get_mut(&stack) {
            nest.locks.woken = Some(by);
        }
    }

    /// Locks of the tasks that no CPU runs; `running`: the stacks of those that one does.
    pub fn parked<'a>(&'a self, running: &'a [u64]) -> impl Iterator<Item = &'a Holder> {
        let waiting = self.parked.iter();
        let waiting = waiting.filter(move |(stack, _)| !running.contains(stack));
        waiting.map(|(_, nest)| &nest.locks)
    }

    fn thread(&mut self, stack: u64) -> Context {
        let stacks = &mut self.stacks;
        let n = *self.index.entry(stack).or_insert_with(|| {
            stacks.push(stack);
            (stacks.len() - 1).min(0x7fff) as u16
        });
        TASK + n
    }
}

/// The context that one CPU is in.
pub struct Tracker {
    nest: Nest,
    stack: u64,
    stack_mask: u64,
}

impl Tracker {
    /// `stack_size`: bytes of a kernel stack, a power of two.
    pub fn new(stack_size: u64) -> Self {
        Tracker {
            nest: Nest {
                base: TASK,
                ..Nest::default()
            },
            stack: 0,
            stack_mask: !(stack_size - 1),
        }
    }

    pub fn current(&self) -> Context {
        self.nest.current()
    }

    /// The locks of the task that runs.
    #[inline(always)]
    pub fn locks(&mut self) -> &mut Holder {
        &mut self.nest.locks
    }

    /// The same, to look at.
    pub fn held(&self) -> &Holder {
        &self.nest.locks
    }

    /// Base of the stack that `address` is on, if it is on one.
    #[inline(always)]
    pub fn stack_of(&self, address: u64) -> u64 {
        address & self.stack_mask
    }

    /// Base of the stack of the task that runs; 0 if that is not known.
    pub fn stack(&self) -> u64 {
        self.stack
    }

    /// The last call executed, by the task that runs, at this depth of interrupts.
    #[inline(always)]
    pub fn call(&mut self) -> &mut u64 {
        &mut self.nest.call
    }

    /// The call that led into the leaf function `leaf`, of the task that runs.
    #[inline(always)]
    pub fn caller(&mut self, leaf: u16) -> &mut u64 {
        let (callers, leaf) = (&mut self.nest.callers, leaf as usize);
        if callers.len() <= leaf {
            callers.resize(leaf + 1, 0);
        }
        &mut callers[leaf]
    }

    /// User code runs: whatever was thought to be going on in the kernel is over.
    pub fn user(&mut self) {
        self.nest.base = USER;
        self.nest.top.clear();
        self.nest.locks.clear();
    }

    pub fn syscall_entry(&mut self) {
        self.nest.base = SYSCALL_UNKNOWN;
        self.nest.top.clear();
    }

    /// The handler of system call `number` is entered. One handler may call
    /// another, so only the first one names the context.
    pub fn syscall(&mut self, number: u16) {
        if self.nest.base == SYSCALL_UNKNOWN {
            self.nest.base = SYSCALL + number.min(caused::OTHER);
        }
    }

    pub fn irq(&mut self) {
        self.nest.push(IRQ);
    }

    /// Something was pushed at `address`, on the stack of the task that runs.
    pub fn stack_at(&mut self, address: u64) {
        self.stack = self.stack_of(address);
    }

    /// Whether `address` is on the stack of the task that runs, if that is known.
    #[inline(always)]
    pub fn on_own_stack(&self, address: u64) -> bool {
        self.stack_of(address) == self.stack
    }

    /// A fault belongs to what it interrupts; only one from user code is a
    /// context of its own. Return whether it is one.
    pub fn exception(&mut self) -> bool {
        let outer = self.current();
        let own = outer == USER;
        self.nest.push(if own { EXCEPTION } else { outer });
        own
    }

    pub fn exception_return(&mut self) {
        if let Some(above) = self.nest.top.pop() {
            self.nest.call = above.call;
            self.nest.callers = above.callers;
        }
    }

    /// Softirqs run. Those that a system call has run where it turns them on again are
    /// its own work put off: what it sent to itself, say. After an interrupt nobody knows
    /// whose they are.
    pub fn softirq(&mut self) {
        self.nest.push(match self.nest.current() {
            inside if (SYSCALL..DEFERRED).contains(&inside) => DEFERRED + (inside - SYSCALL),
            // One of the functions that run them may call the other.
            inside if is_deferred(inside) => inside,
            _ => SOFTIRQ,
        });
    }

    /// Softirqs have run.
    pub fn softirq_end(&mut self) {
        self.leave_any(|c| c == SOFTIRQ || is_deferred(c));
    }

    pub fn enter(&mut self, context: Context) {
        self.nest.push(context);
    }

    /// Leaves the innermost `context`, and all that was entered above it.
    pub fn leave(&mut self, context: Context) {
        self.leave_any(|c| c == context);
    }

    fn leave_any(&mut self, left: impl Fn(Context) -> bool) {
        let top = &mut self.nest.top;
        if let Some(at) = top.iter().rposition(|above| left(above.context)) {
            top.truncate(at);
        }
    }

    /// Leaves a charged function. A kernel thread that is done with its work item
    /// holds nothing; what it seems to hold was lost sight of.
    pub fn leave_charged(&mut self, number: u16) {
        self.leave(CHARGED + number);
        self.done();
    }

    /// A kernel thread that is at no work holds nothing.
    fn done(&mut self) {
        let works = |above: &Above| !matches!(above.context, WORK | CALLBACK);
        if self.nest.base >= TASK && !self.nest.top.iter().any(works) {
            self.nest.locks.clear();
        }
    }

    /// Why things are done here that are left for later: for whom, on a CPU of `container`,
    /// and in which system call. None if that is for nobody.
    pub fn cause(&self, container: u32) -> Option<Cause> {
        let current = self.current();
        let call = match current {
            _ if kind_of(current) == kind::BACKGROUND => return None,
            SYSCALL..=0x3fff => current - SYSCALL,
            DEFERRED..=0x7fff => current & caused::OTHER,
            _ => caused::OTHER,
        };
        let cause = self.nest.cause().unwrap_or(Cause { container, call });
        Some(match self.does_charged_work() {
            true => Cause::ALL,
            false => Cause { call, ..cause },
        })
    }

    /// What was left for later, and whose doing that is known, begins in a worker or a batch of
    /// callbacks. Whether that was seen to begin.
    pub fn begin(&mut self, what: caused::What, cause: Cause) -> bool {
        let (around, context) = match what {
            caused::What::Work => (WORK, WORKED),
            caused::What::Callback => (CALLBACK, CALLED_BACK),
        };
        let inside = self.current() == around;
        if inside {
            self.nest.push(context + cause.call);
            if let Some(above) = self.nest.top.last_mut() {
                above.cause = Some(cause);
            }
        }
        inside
    }

    /// What was begun in a batch of callbacks is over.
    pub fn next_callback(&mut self) {
        let top = &mut self.nest.top;
        if let Some(at) = top.iter().rposition(|above| above.context == CALLBACK) {
            top.truncate(at + 1);
        }
    }

    /// A worker is done with an item, or RCU with a batch of callbacks: `context`.
    pub fn leave_work(&mut self, context: Context) {
        self.leave(context);
        self.done();
    }

    fn does_charged_work(&self) -> bool {
        (CHARGED..SYSCALL).contains(&self.current()) && self.nest.base >= TASK
    }

    /// Who works here if that is not the CPU itself, for its own container: the kernel thread
    /// that does charged work, or all containers' work, by its stack; or another container
    /// than this CPU's, by the CPU's number and its own.
    pub fn working_thread(&self, container: u32, cpu: u32) -> Option<u64> {
        if self.does_charged_work() {
            return Some(self.stack);
        }
        let cause = self.nest.cause().filter(|_| is_deferred(self.current()))?;
        let on_cpu = (cpu as u64 + 1) << CONTAINER_BITS;
        match cause.container {
            own if own == container => None,
            u32::MAX if self.nest.base >= TASK => Some(self.stack),
            u32::MAX => Some(on_cpu),
            other => Some(on_cpu | (other as u64 + 1)),
        }
    }

    pub fn new_task(&mut self) {
        self.nest.base = NEW_TASK;
        self.nest.top.clear();
        self.nest.locks.clear();
    }

    pub fn kernel_thread(&mut self, tasks: &mut Tasks) {
        let stack = self.stack;
        self.nest.base = tasks.thread(stack);
        self.nest.top.clear();
    }

    /// `__switch_to_asm` touches `address` on the stack of the task it leaves.
    pub fn switch_out(&mut self, tasks: &mut Tasks, address: u64) {
        let stack = self.stack_of(address);
        if self.nest.base == TASK && self.stack == 0 {
            self.nest.base = tasks.thread(stack);
        }
        self.stack = stack;
        tasks.parked.insert(stack, self.nest.clone());
    }

    /// `__switch_to_asm` touches `address` on the stack of the task it enters.
    pub fn switch_in(&mut self, tasks: &mut Tasks, address: u64) {
        let stack = self.stack_of(address);
        if stack == self.stack {
            return;
        }
        self.stack = stack;
        self.nest = match tasks.parked.get(&stack) {
            Some(nest) => nest.clone(),
            None => Nest {
                base: tasks.thread(stack),
                ..Nest::default()
            },
        };
    }
}

#[cfg(test)]
#[path = "context_tests.rs"]
mod tests;
