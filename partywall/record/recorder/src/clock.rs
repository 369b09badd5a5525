// SPDX-License-Identifier: GPL-2.0-or-later
//! The guest's time, read from its memory.
//!
//! Plugins can't ask the virtual clock, and counting instructions does not tell for
//! how long all CPUs were idle. The kernel writes `rq->clock`, nanoseconds that all
//! CPUs have in step, whenever it is about to switch to another task. Since its
//! interface of version 4 QEMU lets plugins read memory. QEMU 7.2 has the function
//! that its debuggers use, which is there for us if it was built with modules.

#[cfg(not(registers))]
use std::os::raw::{c_char, c_int, c_void};

pub struct Clock {
    /// Address of `__per_cpu_offset`.
    offsets: u64,
    /// Address of `rq->clock` in a CPU's own memory.
    at: u64,
    /// The same of when its next timer expires; 0 if that is not known.
    expires: u64,
    memory: Memory,
    /// Where each CPU's own memory is, once it was looked up.
    bases: Vec<Option<u64>>,
}

impl Clock {
    /// None if there is no way to read memory, or it is not known what.
    pub fn new(offsets: u64, at: u64, expires: u64) -> Option<Clock> {
        if at == 0 || offsets == 0 {
            return None;
        }
        Some(Clock {
            offsets,
            at,
            expires,
            memory: Memory::open()?,
            bases: Vec::new(),
        })
    }

    /// Time when the running CPU last updated it; in a callback.
    pub fn read(&mut self, cpu: usize) -> Option<u64> {
        self.word(cpu, self.at)
    }

    /// When the running CPU's next timer expires, by a clock of the same pace; in a callback.
    pub fn expires(&mut self, cpu: usize) -> Option<u64> {
        if self.expires == 0 {
            return None;
        }
        self.word(cpu, self.expires)
    }

    /// The eight bytes around `address`, as the running CPU has it mapped; in a callback.
    pub fn around(&mut self, cpu: usize, address: u64) -> Option<u64> {
        self.memory.read(cpu, address & !7)
    }

    /// A word of the running CPU's own memory.
    fn word(&mut self, cpu: usize, at: u64) -> Option<u64> {
        if self.bases.len() <= cpu {
            self.bases.resize(cpu + 1, None);
        }
        let base = match self.bases[cpu] {
            Some(base) => base,
            None => {
                let base = self.memory.read(cpu, self.offsets + 8 * cpu as u64)?;
                *self.bases[cpu].insert(base)
            }
        };
        self.memory.read(cpu, base.wrapping_add(at))
    }
}

#[cfg(registers)]
struct Memory {
    buffer: *mut crate::abi::GByteArray,
}

#[cfg(registers)]
impl Memory {
    fn open() -> Option<Memory> {
        // SAFETY: glib's own.
        let buffer = unsafe { crate::abi::g_byte_array_new() };
        Some(Memory { buffer })
    }

    fn read(&mut self, _cpu: usize, address: u64) -> Option<u64> {
        // SAFETY: memory that glib made, in a callback of a vCPU's.
        unsafe {
            if !crate::abi::qemu_plugin_read_memory_vaddr(address, self.buffer, 8) {
                return None;
            }
            Some(std::ptr::read_unaligned((*self.buffer).data as *const u64))
        }
    }
}

#[cfg(not(registers))]
type GetCpu = unsafe extern "C" fn(c_int) -> *mut c_void;
#[cfg(not(registers))]
type Access = unsafe extern "C" fn(*mut c_void, u64, *mut c_void, usize, bool) -> c_int;

#[cfg(not(registers))]
struct Memory {
    get_cpu: GetCpu,
    access: Access,
}

#[cfg(not(registers))]
extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

#[cfg(not(registers))]
impl Memory {
    fn open() -> Option<Memory> {
        // SAFETY: the default scope, which has the program's own symbols; QEMU has declared
        // both functions so since 1.5 (is_write was an int until 5.0, which is passed alike).
        unsafe {
            let everywhere = std::ptr::null_mut();
            let get_cpu = dlsym(everywhere, b"qemu_get_cpu\0".as_ptr() as *const c_char);
            let access = dlsym(
                everywhere,
                b"cpu_memory_rw_debug\0".as_ptr() as *const c_char,
            );
            if get_cpu.is_null() || access.is_null() {
                return None;
            }
            Some(Memory {
                get_cpu: std::mem::transmute::<*mut c_void, GetCpu>(get_cpu),
                access: std::mem::transmute::<*mut c_void, Access>(access),
            })
        }
    }

    fn read(&mut self, cpu: usize, address: u64) -> Option<u64> {
        let mut word = 0u64;
        // SAFETY: a vCPU of QEMU's, on its own thread, and eight bytes of ours.
        unsafe {
            let vcpu = (self.get_cpu)(cpu as c_int);
            let to = &mut word as *mut u64 as *mut c_void;
            if vcpu.is_null() || (self.access)(vcpu, address, to, 8, false) != 0 {
                return None;
            }
        }
        Some(word)
    }
}
