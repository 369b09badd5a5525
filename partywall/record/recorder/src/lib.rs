// SPDX-License-Identifier: GPL-2.0-or-later
//! Partywall's recorder: a QEMU TCG plugin.
//!
//! Until a program in the guest executes the start marker, the plugin only
//! looks for it in user code while that is translated. Then it has all code
//! translated anew with instrumentation, and records until as many stop
//! markers were executed as windows are expected.

pub mod bits;
pub mod caused;
pub mod checked;
pub mod context;
pub mod cpu;
pub mod cycles;
pub mod delays;
pub mod event;
pub mod format;
pub mod held;
pub mod hooks;
pub mod insn;
mod locks;
pub mod repeated;
pub mod slots;
pub mod spans;
pub mod still;
pub mod table;
pub mod turns;
pub mod under;
pub mod vcpu;
pub mod waits;
pub mod words;

#[cfg(not(test))]
mod abi;
#[cfg(not(test))]
mod arguments;
#[cfg(not(test))]
mod callbacks;
#[cfg(not(test))]
mod callers;
#[cfg(not(test))]
mod clock;
#[cfg(not(test))]
mod later;
#[cfg(not(test))]
mod plugin;
#[cfg(not(test))]
mod site;
#[cfg(not(test))]
mod state;
#[cfg(not(test))]
mod translate;
