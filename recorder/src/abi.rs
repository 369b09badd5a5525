// SPDX-License-Identifier: GPL-2.0-or-later
//! The part of QEMU's TCG plugin interface that the recorder uses.
//!
//! Facts from QEMU's `include/qemu/qemu-plugin.h`; versions 1 (QEMU 7.2) to
//! 5 (QEMU 10.1) differ, for these functions, in `qemu_plugin_insn_data` alone.

use std::os::raw::{c_char, c_int, c_uint, c_void};

pub type PluginId = u64;
pub type MemInfo = u32;

/// Opaque: a translation block during translation.
#[repr(C)]
pub struct Tb {
    _private: [u8; 0],
}

/// Opaque: an instruction during translation.
#[repr(C)]
pub struct Insn {
    _private: [u8; 0],
}

pub const CB_NO_REGS: c_int = 0;
pub const MEM_RW: c_int = 3;

pub type TbTransCb = extern "C" fn(id: PluginId, tb: *mut Tb);
pub type ExecCb = extern "C" fn(cpu: c_uint, data: *mut c_void);
pub type MemCb = extern "C" fn(cpu: c_uint, info: MemInfo, vaddr: u64, data: *mut c_void);
pub type SimpleCb = extern "C" fn(id: PluginId);

extern "C" {
    pub fn qemu_plugin_register_vcpu_tb_trans_cb(id: PluginId, cb: TbTransCb);
    pub fn qemu_plugin_register_vcpu_tb_exec_cb(
        tb: *mut Tb,
        cb: ExecCb,
        flags: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_insn_exec_cb(
        insn: *mut Insn,
        cb: ExecCb,
        flags: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_mem_cb(
        insn: *mut Insn,
        cb: MemCb,
        flags: c_int,
        rw: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_tb_n_insns(tb: *const Tb) -> usize;
    pub fn qemu_plugin_tb_get_insn(tb: *const Tb, index: usize) -> *mut Insn;
    pub fn qemu_plugin_insn_size(insn: *const Insn) -> usize;
    pub fn qemu_plugin_insn_vaddr(insn: *const Insn) -> u64;
    #[cfg(not(insn_data_copies))]
    fn qemu_plugin_insn_data(insn: *const Insn) -> *const c_void;
    #[cfg(insn_data_copies)]
    fn qemu_plugin_insn_data(insn: *const Insn, dest: *mut c_void, len: usize) -> usize;
    pub fn qemu_plugin_mem_size_shift(info: MemInfo) -> c_uint;
    pub fn qemu_plugin_mem_is_store(info: MemInfo) -> bool;
    pub fn qemu_plugin_reset(id: PluginId, cb: SimpleCb);
    pub fn qemu_plugin_outs(string: *const c_char);
    pub fn _exit(status: c_int) -> !;
}

/// Copies the bytes of `insn` into `buffer` and returns them.
///
/// # Safety
/// `insn` must come from `qemu_plugin_tb_get_insn` in the running translation.
pub unsafe fn insn_bytes(insn: *const Insn, buffer: &mut [u8; 16]) -> &[u8] {
    let size = qemu_plugin_insn_size(insn).min(buffer.len());
    #[cfg(not(insn_data_copies))]
    std::ptr::copy_nonoverlapping(
        qemu_plugin_insn_data(insn) as *const u8,
        buffer.as_mut_ptr(),
        size,
    );
    #[cfg(insn_data_copies)]
    qemu_plugin_insn_data(insn, buffer.as_mut_ptr() as *mut c_void, size);
    &buffer[..size]
}
