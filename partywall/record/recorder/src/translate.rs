// SPDX-License-Identifier: GPL-2.0-or-later
//! What each piece of code calls when it runs, said to QEMU when it is translated.

#[cfg(not(userdata))]
use crate::abi::PluginId;
use crate::abi::{self, Insn, Tb};
use crate::callbacks::*;
use crate::event::What;
use crate::hooks::{Hooks, Role, Waits};
use crate::insn;
use crate::later::*;
use crate::site::NO_LEAF;
use crate::state::{state, Block, State, KERNEL_BIT};
use std::os::raw::{c_int, c_void};

fn on_access(insn: *mut Insn, callback: abi::MemCb) {
    // SAFETY: insn belongs to the running translation.
    unsafe {
        abi::qemu_plugin_register_vcpu_mem_cb(
            insn,
            callback,
            abi::CB_NO_REGS,
            abi::MEM_RW,
            std::ptr::null_mut(),
        )
    };
}

fn on_exec(insn: *mut Insn, callback: abi::ExecCb, number: usize) {
    on_exec_with(insn, callback, abi::CB_NO_REGS, number);
}

fn on_exec_with(insn: *mut Insn, callback: abi::ExecCb, flags: c_int, number: usize) {
    let data = number as *mut c_void;
    // SAFETY: insn belongs to the running translation.
    unsafe { abi::qemu_plugin_register_vcpu_insn_exec_cb(insn, callback, flags, data) };
}

fn pushes(bytes: &[u8]) -> bool {
    insn::is_call(bytes) || insn::is_push(bytes)
}

/// Registers what a hooked function needs at the instruction `bytes`.
fn hook(s: &State, insn: *mut Insn, address: u64, bytes: &[u8]) {
    let entry = |address| s.hooks.entry(address).unwrap_or(NO_LEAF) as usize;
    for h in s.hooks.containing(address) {
        let enters = address == h.start;
        let leaves = || insn::leaves(bytes, address, h.start, h.end);
        match h.role {
            Role::Switch => {
                let callback = match insn::is_pop(bytes) {
                    Some(true) => on_switch_pop as abi::MemCb,
                    Some(false) => on_switch_push as abi::MemCb,
                    None => continue,
                };
                on_access(insn, callback);
            }
            Role::SyscallEntry if enters => on_exec(insn, on_syscall_entry, 0),
            Role::SyscallEntry if insn::is_push(bytes) => on_access(insn, on_entry_push),
            Role::Syscall(n) if enters => on_exec(insn, on_syscall, n as usize),
            Role::Irq if enters => on_exec(insn, on_irq, 0),
            Role::Timer if enters => {
                on_exec(insn, on_irq, 0);
                on_exec(insn, on_timer, 0);
            }
            Role::Exception if enters => on_exec(insn, on_exception, 0),
            Role::Softirq if enters => on_exec(insn, on_softirq, 0),
            Role::Softirq if leaves() => on_exec(insn, on_softirq_end, 0),
            Role::Scheduler if enters => on_exec(insn, on_scheduler, 0),
            Role::Scheduler if leaves() => on_exec(insn, on_scheduler_end, 0),
            Role::Fork if enters => on_exec(insn, on_new_task, 0),
            Role::Thread if enters => on_exec(insn, on_thread, 0),
            Role::Charge(n) if enters => on_exec(insn, on_charge, n as usize),
            Role::Charge(n) if leaves() => on_exec(insn, on_charge_end, n as usize),
            Role::Count(n) if enters => on_exec(insn, on_count, n as usize),
            Role::Lock if enters => on_exec(insn, on_lock, entry(address)),
            Role::LockShared if enters => on_exec(insn, on_lock_shared, entry(address)),
            Role::Sleep { number, what, .. } if enters => {
                let number = number as usize | (what as usize) << 16;
                on_exec(insn, on_sleep, number | entry(address) << 32);
            }
            Role::Sleep {
                what: Waits::ForBit,
                ..
            } if leaves() && waits_on(&s.hooks, bytes, address) => on_exec(insn, on_sleep_tail, 0),
            Role::Sleep { number, what, .. } if leaves() => {
                let takes = (what == Waits::ForOwn) as usize;
                on_exec(insn, on_sleep_end, number as usize | takes << 16);
            }
            Role::Wakes => on_access(insn, on_wakes),
            Role::Up if enters => on_exec(insn, on_up, 0),
            Role::Give if enters => on_exec(insn, on_give, 0),
            Role::Wait if enters => on_exec(insn, on_wait, 0),
            Role::Queue if enters => on_exec(insn, on_queue, 1),
            Role::Queue if leaves() => on_exec(insn, on_queue, 0),
            Role::Queue if insn::is_atomic(bytes) => on_access(insn, on_mark),
            Role::Grab if insn::is_atomic(bytes) => on_access(insn, on_grab),
            Role::Grab if !pushes(bytes) => on_access(insn, on_grab_store),
            Role::Queued if enters => on_exec(insn, on_queued, 0),
            Role::CallRcu if enters => on_exec(insn, on_call_rcu, 0),
            // What is pushed lies on a stack that may be that of interrupts.
            Role::CallRcu if !pushes(bytes) => on_access(insn, on_call_rcu_access),
            Role::Work if enters => on_exec(insn, on_work, 0),
            Role::Work if leaves() => on_exec(insn, on_work_end, 0),
            Role::Work if !pushes(bytes) => on_access(insn, on_work_access),
            Role::Callbacks if enters => on_exec(insn, on_callbacks, 0),
            Role::Callbacks if leaves() => on_exec(insn, on_callbacks_end, 0),
            Role::Callbacks if !pushes(bytes) => on_access(insn, on_callbacks_access),
            _ => {}
        }
    }
}

/// Whether a jump at `address` goes to the start of a function whose callers are told, from another one.
fn tail_calls_told(hooks: &Hooks, bytes: &[u8], address: u64) -> bool {
    insn::target(bytes, address).map_or(false, |to| {
        let mut there = hooks.containing(to);
        there.any(|h| {
            matches!(
                h.role,
                Role::Leaf(_) | Role::Sleep { .. } | Role::Queue | Role::CallRcu
            ) && h.start == to
                && !(h.start..h.end).contains(&address)
        })
    })
}

/// Whether a jump at `address` goes to the start of a function that waits.
fn waits_on(hooks: &Hooks, bytes: &[u8], address: u64) -> bool {
    insn::target(bytes, address).map_or(false, |to| {
        let mut there = hooks.containing(to);
        there.any(|h| matches!(h.role, Role::Sleep { .. }) && h.start == to)
    })
}

/// Hooks the markers in a block of user code.
fn mark(insn: *mut Insn, bytes: &[u8]) {
    if bytes == insn::MARK_START {
        on_exec_with(insn, on_start, abi::CB_WHO, 0);
    } else if bytes == insn::MARK_STOP {
        on_exec_with(insn, on_stop, abi::CB_WHO, 0);
    } else if bytes == insn::MARK_NEXT {
        on_exec_with(insn, on_next, abi::CB_WHO, 0);
    } else if bytes == insn::MARK_LOOK {
        on_exec_with(insn, on_look, abi::CB_WHO, 0);
    }
}

/// Instruments user code: markers, and in the window its instructions.
///
/// # Safety
/// `tb` must be the block being translated.
unsafe fn translate_user(tb: *mut Tb, count: usize, instrument: bool) {
    if instrument {
        abi::qemu_plugin_register_vcpu_tb_exec_cb(
            tb,
            on_user_block,
            abi::CB_WHO,
            count as *mut c_void,
        );
    }
    let mut buffer = [0u8; 16];
    for n in 0..count {
        let insn = abi::qemu_plugin_tb_get_insn(tb, n);
        mark(insn, abi::insn_bytes(insn, &mut buffer));
    }
}

/// Instruments kernel code: instructions, accesses, changes of context.
///
/// # Safety
/// `tb` must be the block being translated.
unsafe fn translate_kernel(s: &mut State, tb: *mut Tb, first: u64, count: usize) {
    let mut buffer = [0u8; 16];
    let mut block = Block {
        instructions: count as u64,
        call: 0,
        enters: s.hooks.entry(first).unwrap_or(NO_LEAF),
        leaves: false,
        spins: false,
        pauses: false,
        repeats: 0,
        ends_repeating: 0,
        what: What::default(),
    };
    let mut thunk = false;
    for h in s.hooks.containing(first) {
        match h.role {
            Role::Spin => block.spins = true,
            Role::Queue | Role::CallRcu => block.leaves = h.start == first,
            Role::Thunk => thunk = true,
            _ => {}
        }
    }
    // The block's callback has to come before those of its instructions.
    let last = abi::qemu_plugin_tb_get_insn(tb, count - 1);
    let bytes = abi::insn_bytes(last, &mut buffer);
    let address = abi::qemu_plugin_insn_vaddr(last);
    if !thunk && insn::is_call(bytes) || tail_calls_told(&s.hooks, bytes, address) {
        block.call = address;
    }
    if insn::is_repeated(bytes) {
        block.ends_repeating = abi::qemu_plugin_insn_vaddr(last);
    }
    let start = abi::qemu_plugin_tb_get_insn(tb, 0);
    if insn::is_repeated(abi::insn_bytes(start, &mut buffer)) {
        block.repeats = first;
    }
    block.pauses = (0..count).any(|n| {
        let insn = abi::qemu_plugin_tb_get_insn(tb, n);
        insn::is_pause(abi::insn_bytes(insn, &mut buffer))
    });
    abi::qemu_plugin_register_vcpu_tb_exec_cb(
        tb,
        on_kernel_block,
        abi::CB_WHO,
        s.block(block) as *const Block as *mut c_void,
    );
    let mut flags_pushed = false;
    for n in 0..count {
        let insn = abi::qemu_plugin_tb_get_insn(tb, n);
        let bytes = abi::insn_bytes(insn, &mut buffer);
        let address = abi::qemu_plugin_insn_vaddr(insn);
        let site = s.site(address, bytes);
        hook(s, insn, address, bytes);
        abi::qemu_plugin_register_vcpu_mem_cb(
            insn,
            on_memory,
            abi::CB_NO_REGS,
            abi::MEM_RW,
            site.word(),
        );
        // With IRET a CPU synchronizes itself, too: then what it returns to was pushed
        // just before, flags included.
        flags_pushed |= insn::is_push_of_flags(bytes);
        if insn::is_exception_return(bytes) && !flags_pushed {
            on_exec(insn, on_exception_return, 0);
        }
    }
}

#[cfg(not(userdata))]
pub extern "C" fn on_translate(_: PluginId, tb: *mut Tb) {
    translate(tb);
}

#[cfg(userdata)]
pub extern "C" fn on_translate(tb: *mut Tb, _: *mut c_void) {
    translate(tb);
}

fn translate(tb: *mut Tb) {
    let s = state();
    let instrument = s.instrumented;
    // SAFETY: tb is the block being translated, for the length of this call.
    unsafe {
        let count = abi::qemu_plugin_tb_n_insns(tb);
        let first = abi::qemu_plugin_insn_vaddr(abi::qemu_plugin_tb_get_insn(tb, 0));
        if first & KERNEL_BIT == 0 {
            translate_user(tb, count, instrument);
        } else if instrument {
            translate_kernel(s, tb, first, count);
        }
    }
}
