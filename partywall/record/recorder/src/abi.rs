// SPDX-License-Identifier: GPL-2.0-or-later
//! The part of QEMU's TCG plugin interface that the recorder uses.
//!
//! Facts from QEMU's `include/qemu/qemu-plugin.h`, for versions 1 (QEMU 7.2) to
//! 7 (QEMU 11.1). Version 3 changed how an instruction's bytes are read, 4 has
//! all that it takes to tell vCPUs apart (see vcpu.rs), 7 hands callbacks a
//! pointer of the plugin's where it had handed them its identity.

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

/// Opaque: a register of the guest's.
#[cfg(registers)]
pub type Register = *mut c_void;

/// The beginning of what QEMU says of a register.
#[cfg(registers)]
#[repr(C)]
pub struct RegisterDescription {
    pub handle: Register,
    pub name: *const c_char,
}

/// glib's GArray and GByteArray.
#[cfg(registers)]
#[repr(C)]
pub struct GByteArray {
    pub data: *mut u8,
    pub len: c_uint,
}

/// What QEMU says of the machine when it loads a plugin.
#[repr(C)]
pub struct Info {
    target: *const c_char,
    versions: [c_int; 2],
    system: bool,
    pub vcpus: c_int,
    max_vcpus: c_int,
}

pub const CB_NO_REGS: c_int = 0;
/// For a callback that asks which vCPU runs.
pub const CB_WHO: c_int = if cfg!(registers) { 1 } else { CB_NO_REGS };
pub const MEM_RW: c_int = 3;

#[cfg(not(userdata))]
pub type TbTransCb = extern "C" fn(id: PluginId, tb: *mut Tb);
#[cfg(userdata)]
pub type TbTransCb = extern "C" fn(tb: *mut Tb, data: *mut c_void);
pub type ExecCb = extern "C" fn(cpu: c_uint, data: *mut c_void);
pub type MemCb = extern "C" fn(cpu: c_uint, info: MemInfo, vaddr: u64, data: *mut c_void);
/// Called with the plugin's identity, or since version 7 with its pointer.
pub type SimpleCb = extern "C" fn(id_or_data: u64);

extern "C" {
    #[cfg(not(userdata))]
    fn qemu_plugin_register_vcpu_tb_trans_cb(id: PluginId, cb: TbTransCb);
    #[cfg(userdata)]
    fn qemu_plugin_register_vcpu_tb_trans_cb(id: PluginId, cb: TbTransCb, data: *mut c_void);
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
    #[cfg(not(userdata))]
    fn qemu_plugin_reset(id: PluginId, cb: SimpleCb);
    #[cfg(userdata)]
    fn qemu_plugin_reset(id: PluginId, cb: SimpleCb, data: *mut c_void);
    pub fn qemu_plugin_outs(string: *const c_char);
    pub fn _exit(status: c_int) -> !;
    pub fn clock_gettime(clock: c_int, time: *mut TimeSpec) -> c_int;
}

/// Of the C library: how long all threads of this process have run.
pub const CLOCK_PROCESS_CPUTIME_ID: c_int = 2;

/// `struct timespec` of x86-64.
#[repr(C)]
#[derive(Default)]
pub struct TimeSpec {
    pub seconds: i64,
    pub nanoseconds: i64,
}

#[cfg(registers)]
extern "C" {
    pub fn qemu_plugin_get_registers() -> *mut GByteArray;
    pub fn qemu_plugin_read_register(register: Register, into: *mut GByteArray) -> c_int;
    pub fn qemu_plugin_read_memory_vaddr(vaddr: u64, into: *mut GByteArray, len: usize) -> bool;
    pub fn g_byte_array_new() -> *mut GByteArray;
    pub fn g_byte_array_set_size(array: *mut GByteArray, length: c_uint) -> *mut GByteArray;
    pub fn g_array_get_element_size(array: *mut GByteArray) -> c_uint;
    pub fn g_array_free(array: *mut GByteArray, free_elements: c_int) -> *mut c_char;
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

/// Has `callback` called for each block that is translated.
///
/// # Safety
/// `id` must be the identity that QEMU gave.
pub unsafe fn on_translation(id: PluginId, callback: TbTransCb) {
    #[cfg(not(userdata))]
    qemu_plugin_register_vcpu_tb_trans_cb(id, callback);
    #[cfg(userdata)]
    qemu_plugin_register_vcpu_tb_trans_cb(id, callback, std::ptr::null_mut());
}

/// Drops all callbacks and translations, then calls `callback`.
///
/// # Safety
/// As for `on_translation`.
pub unsafe fn reset(id: PluginId, callback: SimpleCb) {
    #[cfg(not(userdata))]
    qemu_plugin_reset(id, callback);
    #[cfg(userdata)]
    qemu_plugin_reset(id, callback, std::ptr::null_mut());
}
