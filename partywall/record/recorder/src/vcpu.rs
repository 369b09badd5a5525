// SPDX-License-Identifier: GPL-2.0-or-later
//! Which vCPU runs.
//!
//! QEMU 10.0 and later pass a callback the index of the vCPU for which a block
//! was *translated*, a constant in the translated code, unless vCPUs run on
//! threads of their own. Guests that count instructions share one thread and
//! all translations, so that number says nothing there. The kernel knows: GS
//! points to the running CPU's own memory, whose addresses are in
//! `__per_cpu_offset`.

/// Address of a CPU's own memory in the kernel, for each CPU.
#[derive(Default)]
pub struct Bases {
    of_cpu: Vec<u64>,
    last: usize,
}

impl Bases {
    /// Take the words of `__per_cpu_offset`, in order of CPU numbers.
    ///
    /// Err if two are alike, as on a kernel that has not set its CPUs up.
    pub fn new(of_cpu: Vec<u64>) -> Result<Bases, String> {
        let mut sorted = of_cpu.clone();
        sorted.sort_unstable();
        sorted.dedup();
        if sorted.len() != of_cpu.len() {
            return Err("not every CPU has per-CPU memory of its own (nr_cpus=?)".into());
        }
        Ok(Bases { of_cpu, last: 0 })
    }

    /// Return the CPU whose memory starts at `base`; None if no CPU's does.
    #[inline(always)]
    pub fn cpu(&mut self, base: u64) -> Option<usize> {
        // One CPU runs for thousands of blocks before the next one does.
        if self.of_cpu.get(self.last) != Some(&base) {
            self.last = self.of_cpu.iter().position(|&known| known == base)?;
        }
        Some(self.last)
    }
}

#[cfg(all(not(test), registers))]
mod running {
    use super::Bases;
    use crate::abi::{self, GByteArray, Register};
    use std::ffi::CStr;

    /// Tells the running vCPU by the kernel's per-CPU memory.
    pub struct Running {
        bases: Bases,
        gs: Register,
        kernel_gs: Register,
        buffer: *mut GByteArray,
    }

    impl Running {
        /// Read the guest's `__per_cpu_offset`; in a callback that may read registers.
        pub fn new(offsets: u64, cpus: usize) -> Result<Running, String> {
            // SAFETY: QEMU's own functions, with memory that glib made.
            unsafe {
                if offsets == 0 {
                    return Err("vmlinux has no __per_cpu_offset".into());
                }
                let buffer = abi::g_byte_array_new();
                if !abi::qemu_plugin_read_memory_vaddr(offsets, buffer, 8 * cpus) {
                    return Err("__per_cpu_offset can't be read where vmlinux has it \
                                (a program doesn't see it with pti=on)"
                        .into());
                }
                let words = std::slice::from_raw_parts((*buffer).data, (*buffer).len as usize);
                let of_cpu = words
                    .chunks_exact(8)
                    .map(|word| u64::from_le_bytes(word.try_into().unwrap()));
                Ok(Running {
                    bases: Bases::new(of_cpu.collect())?,
                    gs: register("gs_base")?,
                    kernel_gs: register("k_gs_base")?,
                    buffer,
                })
            }
        }

        /// The CPU to whose memory a register points. QEMU gives all 64 bits of it,
        /// also in code of 32 bits, or nothing.
        #[inline(always)]
        fn of(&mut self, register: Register) -> Option<usize> {
            // SAFETY: a handle that QEMU gave, and memory that glib made.
            let base = unsafe {
                abi::g_byte_array_set_size(self.buffer, 0);
                abi::qemu_plugin_read_register(register, self.buffer);
                if (*self.buffer).len != 8 {
                    return None;
                }
                std::ptr::read_unaligned((*self.buffer).data as *const u64)
            };
            self.bases.cpu(base)
        }

        /// Return the running CPU. Where the kernel is entered and left GS is still, or
        /// already, the program's, and SWAPGS keeps the kernel's in the other register.
        #[inline(always)]
        pub fn cpu(&mut self, user: bool) -> Option<usize> {
            let (first, second) = if user {
                (self.kernel_gs, self.gs)
            } else {
                (self.gs, self.kernel_gs)
            };
            self.of(first).or_else(|| self.of(second))
        }
    }

    /// QEMU's handle of the register of that name.
    unsafe fn register(name: &str) -> Result<Register, String> {
        let all = abi::qemu_plugin_get_registers();
        // Later versions of QEMU have longer descriptions, which begin alike.
        let size = abi::g_array_get_element_size(all) as usize;
        let found = (0..(*all).len as usize)
            .map(|n| &*((*all).data.add(n * size) as *const abi::RegisterDescription))
            .find(|known| CStr::from_ptr(known.name).to_bytes() == name.as_bytes())
            .map(|known| known.handle);
        abi::g_array_free(all, 1);
        found.ok_or_else(|| format!("QEMU knows no register {}", name))
    }
}

#[cfg(all(not(test), registers))]
pub use running::Running;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_cpus_by_their_own_memory() {
        let mut bases = Bases::new(vec![0xff00_0000_1000_0000, 0xff00_0000_1004_0000]).unwrap();
        assert_eq!(bases.cpu(0xff00_0000_1004_0000), Some(1));
        assert_eq!(bases.cpu(0xff00_0000_1000_0000), Some(0));
        assert_eq!(bases.cpu(0x7fff_0000_0000), None);
        assert_eq!(bases.cpu(0), None);
    }

    #[test]
    fn refuses_cpus_that_can_not_be_told_apart() {
        assert!(Bases::new(vec![1, 2, 1]).is_err());
    }
}
