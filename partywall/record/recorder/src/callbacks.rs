// SPDX-License-Identifier: GPL-2.0-or-later
//! The callbacks that QEMU makes.

use crate::abi::{self, MemInfo};
use crate::context;
use crate::cpu::Outcome;
use crate::event::{Event, ATOMIC, STORE};
use crate::format::kind;
use crate::held::Kind;
use crate::hooks::Waits;
use crate::site::{Site, NO_LEAF};
use crate::state::{state, Block, State, CHECK_EVERY, KERNEL_BIT};
use crate::table::LINE_SHIFT;
use crate::translate::on_translate;
use std::os::raw::{c_uint, c_void};

pub extern "C" fn on_start(told: c_uint, _: *mut c_void) {
    let s = state();
    let cpu = s.arrive(told, true);
    if !s.active {
        s.begin();
    }
    let c = s.cpu(cpu);
    if c.open {
        return;
    }
    c.open = true;
    c.own.summary.windows += 1;
    c.tracker.user();
    s.refresh(cpu);
}

/// Another round begins, whatever became of the last one; or the only one is over.
pub extern "C" fn on_next(told: c_uint, _: *mut c_void) {
    let s = state();
    s.arrive(told, true);
    if s.late {
        if s.active && s.closed >= s.windows {
            s.finish();
        }
    } else if s.rounds {
        s.next();
    }
}

/// Memory is to be looked at, between windows.
pub extern "C" fn on_look(_: c_uint, _: *mut c_void) {
    let s = state();
    if !s.active {
        s.look();
    }
}

pub extern "C" fn on_stop(told: c_uint, _: *mut c_void) {
    let s = state();
    let cpu = s.arrive(told, true);
    let c = s.cpu(cpu);
    if !c.open {
        return;
    }
    c.open = false;
    // A second window of one CPU does not stand for that of another one.
    let first = c.own.summary.windows == 1;
    s.closed += first as u32;
    if s.closed >= s.windows && !s.late {
        s.finish();
    }
}

/// Has all code translated anew, as `instrumented` says.
pub fn translate_anew(s: &State) {
    // SAFETY: the identity QEMU gave us; the callback is a plain function.
    unsafe { abi::reset(s.id, on_reset) };
}

extern "C" fn on_reset(_: u64) {
    // SAFETY: as in install.
    unsafe { abi::on_translation(state().id, on_translate) };
}

pub extern "C" fn on_user_block(told: c_uint, data: *mut c_void) {
    let s = state();
    let cpu = s.arrive(told, true);
    if !s.active {
        return;
    }
    s.cpu(cpu);
    let c = &mut s.cpus[cpu as usize];
    c.settle(Outcome::Work, &mut s.counting);
    c.ran += data as u64;
    c.tracker.user();
    if c.open {
        c.own.summary.user_instructions += data as u64;
    }
    s.refresh(cpu);
}

pub extern "C" fn on_kernel_block(told: c_uint, data: *mut c_void) {
    let s = state();
    let cpu = s.arrive(told, false);
    // SAFETY: data is an interned Block, which is never freed.
    let block = unsafe { &*(data as *const Block) };
    if !s.active {
        return;
    }
    s.blocks_until_check -= 1;
    if s.blocks_until_check == 0 {
        s.blocks_until_check = CHECK_EVERY;
        s.check_memory();
    }
    s.cpu(cpu);
    let c = &mut s.cpus[cpu as usize];
    let mut instructions = block.instructions;
    c.ran += instructions;
    if block.again(c.repeating) {
        return;
    }
    if block.repeats != 0 && block.repeats == c.repeating {
        // One more step of the string instruction that ran before.
        instructions -= 1;
    } else {
        c.swept = [0; 2];
    }
    c.repeating = block.ends_repeating;
    if c.records() {
        instructions = c.run(instructions, block.spins);
        if c.works() {
            let event = Event {
                address: instructions,
                what: block.what,
            };
            c.push(event, &mut s.counting);
        }
    }
    if block.enters != NO_LEAF {
        *c.tracker.caller(block.enters) = *c.tracker.call();
    }
    if block.leaves {
        c.leaving.called = *c.tracker.call();
    }
    if block.call != 0 {
        *c.tracker.call() = block.call;
    }
}

pub extern "C" fn on_memory(told: c_uint, info: MemInfo, address: u64, data: *mut c_void) {
    let s = state();
    if !s.active || !s.is_here(told) {
        return;
    }
    // Most accesses are of no particular kind, and kept back: they need to be quick.
    let plain = Site::plain_index(data).filter(|_| address & KERNEL_BIT != 0);
    if let Some(index) = plain {
        if let Some(c) = s.cpus.get_mut(s.current as usize) {
            let what = s.infos.decode(info).of(index);
            let quiet = !what.is(STORE) || !c.tracker.locks().may_give(address);
            if quiet && c.kind != kind::BACKGROUND && c.records() {
                c.keep(address, what, &mut s.counting);
                return;
            }
        }
    }
    on_any_memory(s, data, info, address);
}

#[inline(never)]
fn on_any_memory(s: &mut State, data: *mut c_void, info: MemInfo, address: u64) {
    if address & KERNEL_BIT == 0 {
        // The program's memory: what it asked for, a step further.
        let c = s.here();
        if c.waits.is_pending() {
            c.waits.step();
        }
        return;
    }
    // SAFETY: on_memory is given the words of sites alone.
    let site = unsafe { s.site_of(data) };
    let mut what = s.infos.decode(info).of(site.index);
    if site.atomic {
        what = what.with(ATOMIC);
    }
    let store = what.is(STORE);
    let cpu = s.current;
    let c = s.cpu(cpu);
    if site.repeated {
        // Of a sweep through memory, a line is accessed once.
        let line = address >> LINE_SHIFT;
        if std::mem::replace(&mut c.swept[store as usize], line) == line {
            return;
        }
    }
    if !c.records() {
        return;
    }
    if store && site.gives && !c.tracker.on_own_stack(address) {
        c.give(address);
    }
    let mut changes = false;
    if store {
        let c = &mut s.cpus[cpu as usize];
        changes = c.wrote(address, what.is(ATOMIC), site.locks, &mut s.locks);
        // Who takes a lock fetches it for all who wait.
        if changes && site.locks {
            c.mark(true, &mut s.locks, &mut s.counting);
        }
        if !site.locks {
            s.bit(cpu, site, address, what.size());
        }
    }
    if site.counts {
        let c = &mut s.cpus[cpu as usize];
        c.count(address, store);
    }
    if site.leaf != NO_LEAF && !s.cpu(cpu).tracker.on_own_stack(address) {
        what = what.of(s.site_index(cpu, site));
    }
    let c = &mut s.cpus[cpu as usize];
    if c.kind != kind::BACKGROUND {
        c.keep(address, what, &mut s.counting);
        if changes {
            c.mark(false, &mut s.locks, &mut s.counting);
        }
    } else {
        let event = c.event(address, what);
        c.count_now(event, &mut s.counting);
    }
}

pub extern "C" fn on_entry_push(told: c_uint, _: MemInfo, address: u64, _: *mut c_void) {
    let s = state();
    if s.is_here(told) {
        s.here().tracker.stack_at(address);
    }
}

macro_rules! context_callbacks {
    ($($name:ident => |$tracker:ident, $tasks:ident, $n:ident| $body:expr;)*) => {$(
        pub extern "C" fn $name(_: c_uint, data: *mut c_void) {
            let s = state();
            let cpu = s.current;
            s.cpu(cpu);
            let c = &mut s.cpus[cpu as usize];
            let ($tracker, $tasks, $n) = (&mut c.tracker, &mut s.tasks, data as usize as u16);
            let _ = (&$tasks, $n);
            $body;
            s.refresh(cpu);
        }
    )*};
}

context_callbacks! {
    on_syscall => |t, tasks, n| t.syscall(n);
    on_irq => |t, tasks, n| t.irq();
    on_exception_return => |t, tasks, n| t.exception_return();
    on_softirq => |t, tasks, n| t.softirq();
    on_softirq_end => |t, tasks, n| t.softirq_end();
    on_scheduler => |t, tasks, n| t.enter(context::SCHEDULER);
    on_scheduler_end => |t, tasks, n| t.leave(context::SCHEDULER);
    on_new_task => |t, tasks, n| t.new_task();
    on_thread => |t, tasks, n| t.kernel_thread(tasks);
    on_charge_end => |t, tasks, n| t.leave_charged(n);
}

/// As the others, and a new stretch of work begins.
macro_rules! beginning_callbacks {
    ($($name:ident => |$tracker:ident, $n:ident| $body:expr;)*) => {$(
        pub extern "C" fn $name(_: c_uint, data: *mut c_void) {
            let s = state();
            let cpu = s.current;
            let ($tracker, $n) = (&mut s.cpu(cpu).tracker, data as usize as u16);
            let _ = $n;
            let begins = $body;
            s.refresh(cpu);
            if begins {
                s.cpus[cpu as usize].begin(&mut s.counting);
            }
        }
    )*};
}

beginning_callbacks! {
    on_syscall_entry => |t, n| { t.syscall_entry(); true };
    on_exception => |t, n| t.exception();
    on_charge => |t, n| { t.enter(context::CHARGED + n); true };
}

pub extern "C" fn on_count(_: c_uint, data: *mut c_void) {
    let s = state();
    let c = s.here();
    if c.foreground() && c.records() {
        c.party().summary.calls[data as usize] += 1;
    }
}

/// That interrupt is a timer's of the running CPU.
pub extern "C" fn on_timer(_: c_uint, _: *mut c_void) {
    state().timer_came();
}

/// A timer wakes a task, on whose stack `address` is.
pub extern "C" fn on_wakes(told: c_uint, _: MemInfo, address: u64, _: *mut c_void) {
    let s = state();
    if !s.is_here(told) {
        return;
    }
    if let Some(by) = s.delays.last(s.current as usize) {
        let stack = s.here().tracker.stack_of(address);
        s.tasks.woken(stack, by);
    }
}

/// A lock function is entered; what is done with the lock shows in its accesses.
fn enter_lock(kind: Kind, entry: *mut c_void) {
    let s = state();
    if s.here().records() && s.here().works() {
        let taker = s.caller(entry as usize as u16);
        s.here().enter_lock(kind, taker);
    }
}

pub extern "C" fn on_lock(_: c_uint, entry: *mut c_void) {
    enter_lock(Kind::Exclusive, entry);
}

pub extern "C" fn on_lock_shared(_: c_uint, entry: *mut c_void) {
    enter_lock(Kind::Shared, entry);
}

pub extern "C" fn on_wait(_: c_uint, _: *mut c_void) {
    state().here().tracker.locks().wait();
}

/// A function that waits is entered: its number, what for, and the number of its entry.
pub extern "C" fn on_sleep(_: c_uint, data: *mut c_void) {
    let s = state();
    let data = data as usize;
    if s.here().records() && s.here().foreground() {
        let caller = s.caller((data >> 32) as u16);
        let what = Waits::of(data >> 16 & 0xffff);
        s.here().enter_wait(data as u16, caller, what);
    }
}

/// A function that waits is left: its number, and whether its caller has a lock now.
pub extern "C" fn on_sleep_end(_: c_uint, data: *mut c_void) {
    let s = state();
    let cpu = s.current;
    s.cpu(cpu);
    let c = &mut s.cpus[cpu as usize];
    if c.records() {
        let data = data as usize;
        c.leave_wait(data as u16, data >> 16 != 0, &mut s.locks);
        c.mark(false, &mut s.locks, &mut s.counting);
    }
}

/// A function that waits ends in another one, and is left with that.
pub extern "C" fn on_sleep_tail(_: c_uint, _: *mut c_void) {
    state().here().tracker.locks().ends_in_next();
}

/// A function is entered that gives a lock back.
pub extern "C" fn on_give(_: c_uint, _: *mut c_void) {
    let c = state().here();
    if c.records() && c.works() {
        c.tracker.locks().giving();
    }
}

/// A function is entered that gives a semaphore back.
pub extern "C" fn on_up(_: c_uint, _: *mut c_void) {
    let c = state().here();
    if c.records() && c.works() {
        c.tracker.locks().upping();
    }
}

pub extern "C" fn on_switch_push(told: c_uint, _: MemInfo, address: u64, _: *mut c_void) {
    let s = state();
    if !s.is_here(told) {
        return;
    }
    let cpu = s.current;
    s.cpu(cpu);
    let counts = s.here().tracker.locks().goes_out();
    let now = counts.then(|| s.seen());
    let c = &mut s.cpus[cpu as usize];
    c.tracker.locks().switch_out(c.clock, now);
    c.tracker.switch_out(&mut s.tasks, address);
}

pub extern "C" fn on_switch_pop(told: c_uint, _: MemInfo, address: u64, _: *mut c_void) {
    let s = state();
    if !s.is_here(told) {
        return;
    }
    let cpu = s.current;
    s.cpu(cpu);
    let c = &mut s.cpus[cpu as usize];
    c.tracker.switch_in(&mut s.tasks, address);
    let now = c.tracker.locks().is_out().then(|| s.seen_again());
    let c = &mut s.cpus[cpu as usize];
    let each = s.locks.instruction_ns;
    c.tracker.locks().switch_in(c.clock, now, each);
    s.refresh(cpu);
}
