// SPDX-License-Identifier: GPL-2.0-or-later
//! The callbacks that QEMU makes where things are left for later, and where they are done.

use crate::abi::{self, MemInfo};
use crate::caused::{By, Cause, Leaving, Pending, What};
use crate::context;
use crate::hooks::Role;
use crate::state::{state, State};
use std::os::raw::{c_uint, c_void};

/// Something is left by the CPU that runs, because of what it does it for.
fn leave(what: impl Fn(&mut Leaving, Option<Cause>, &mut Pending)) {
    let s = state();
    let cpu = s.current;
    s.cpu(cpu);
    let c = &mut s.cpus[cpu as usize];
    let cause = c.cause();
    what(&mut c.leaving, cause, &mut s.tasks.caused);
}

/// Who calls a function of a role; None if that is one of that role itself.
fn caller(role: Role) -> Option<By> {
    let s = state();
    let c = s.here();
    let (site, late) = (c.leaving.called, context::is_caused(c.context));
    let inside = s.hooks.containing(site).any(|h| h.role == role);
    (!inside).then_some(By { site, late })
}

fn is_store(info: MemInfo) -> bool {
    // SAFETY: the decoder looks only at the word QEMU passed.
    unsafe { abi::qemu_plugin_mem_is_store(info) }
}

/// A function that queues a work item is entered, or left.
pub extern "C" fn on_queue(_: c_uint, enters: *mut c_void) {
    let enters = enters as usize != 0;
    let by = enters.then(|| caller(Role::Queue)).flatten();
    state().here().leaving.queue(enters, by);
}

/// It marks the item as pending.
pub extern "C" fn on_mark(told: c_uint, _: MemInfo, address: u64, _: *mut c_void) {
    if state().is_here(told) {
        leave(|leaving, cause, of| leaving.mark(address, cause, true, of));
    }
}

/// The same in another function, which may do so to cancel it.
pub extern "C" fn on_grab(told: c_uint, _: MemInfo, address: u64, _: *mut c_void) {
    if state().is_here(told) {
        leave(|leaving, cause, of| leaving.mark(address, cause, false, of));
    }
}

/// That function stores to somewhere.
pub extern "C" fn on_grab_store(told: c_uint, info: MemInfo, address: u64, _: *mut c_void) {
    if state().is_here(told) && is_store(info) {
        leave(|leaving, _, of| leaving.grab(address, of));
    }
}

pub extern "C" fn on_queued(_: c_uint, _: *mut c_void) {
    leave(|leaving, cause, of| leaving.queued(cause, of));
}

/// Something is left to RCU, or a work item is to be queued by it.
pub extern "C" fn on_call_rcu(_: c_uint, _: *mut c_void) {
    let by = caller(Role::CallRcu);
    leave(|leaving, cause, of| {
        leaving.queued(cause, of);
        leaving.call(by);
    });
}

pub extern "C" fn on_call_rcu_access(told: c_uint, info: MemInfo, address: u64, _: *mut c_void) {
    if state().is_here(told) && is_store(info) {
        leave(|leaving, cause, of| leaving.store(address, cause, of));
    }
}

/// The CPU that runs enters such a context, or leaves it.
fn change(s: &mut State, how: impl Fn(&mut context::Tracker)) {
    let cpu = s.current;
    how(&mut s.cpu(cpu).tracker);
    s.refresh(cpu);
}

pub extern "C" fn on_work(_: c_uint, _: *mut c_void) {
    change(state(), |t| t.enter(context::WORK));
}

pub extern "C" fn on_work_end(_: c_uint, _: *mut c_void) {
    change(state(), |t| t.leave_work(context::WORK));
}

pub extern "C" fn on_callbacks(_: c_uint, _: *mut c_void) {
    change(state(), |t| t.enter(context::CALLBACK));
}

pub extern "C" fn on_callbacks_end(_: c_uint, _: *mut c_void) {
    change(state(), |t| t.leave_work(context::CALLBACK));
}

/// What runs work items or callbacks looks at one of which is known whose doing it is.
fn begin(s: &mut State, what: What, address: u64) -> bool {
    let cause = match s.tasks.caused.take(what, address) {
        None => return false,
        Some(cause) => cause,
    };
    change(s, |t| {
        if what == What::Callback {
            t.next_callback();
        }
        t.begin(what, cause);
    });
    let cpu = s.current;
    s.cpu(cpu);
    s.cpus[cpu as usize].begin(&mut s.counting);
    true
}

pub extern "C" fn on_work_access(told: c_uint, _: MemInfo, address: u64, _: *mut c_void) {
    let s = state();
    if s.is_here(told) && s.active && s.here().tracker.current() == context::WORK {
        begin(s, What::Work, address);
    }
}

/// What runs callbacks is at it again, so that the last one is over; or it forgets the function
/// of one, as it does right before it calls that.
pub extern "C" fn on_callbacks_access(told: c_uint, info: MemInfo, address: u64, _: *mut c_void) {
    let s = state();
    if !s.is_here(told) || !s.active || is_store(info) && begin(s, What::Callback, address) {
        return;
    }
    if context::is_caused(s.here().tracker.current()) {
        change(s, |t| t.next_callback());
    }
}
