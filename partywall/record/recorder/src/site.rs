// SPDX-License-Identifier: GPL-2.0-or-later
//! Instrumented instructions: what is known of one when it is translated.

use crate::abi::{self, MemInfo};
use crate::bits::{self, Bits};
use crate::event::{What, ATOMIC, STORE};
use crate::hooks::{Role, Waits};
use crate::insn;
use crate::state::State;
use std::cell::Cell;
use std::os::raw::c_uint;

pub const NO_LEAF: u16 = u16::MAX;
const NO_CALLER: u64 = u64::MAX;

/// One instrumented instruction. Interned, so that retranslation costs nothing.
pub struct Site {
    pub address: u64,
    pub index: u32,
    pub atomic: bool,
    /// A string instruction, which makes many accesses.
    pub repeated: bool,
    /// In a function that takes a lock or spins for one.
    pub locks: bool,
    /// In a function that gives a lock back.
    pub gives: bool,
    /// In a function that takes a semaphore.
    pub counts: bool,
    /// What it does to locks that are one bit.
    pub bits: Bits,
    /// The leaf function it is in.
    pub leaf: u16,
    /// None of these, and not atomic.
    pub plain: bool,
    /// The caller of that function that was seen last, and the index for it.
    pub last: Cell<(u64, u32)>,
    /// What QEMU said of its last load and its last store, and what that means:
    /// asking QEMU costs two calls, and an instruction's answer hardly changes.
    pub decoded: [Cell<Decoded>; 2],
}

#[derive(Clone, Copy, Default)]
pub struct Decoded {
    pub info: MemInfo,
    /// Nothing yet if it has no size.
    pub what: What,
}

impl Site {
    /// What an access of this instruction is of which QEMU says `info`.
    #[inline(always)]
    pub fn decode(&self, info: MemInfo) -> What {
        for known in &self.decoded {
            let known = known.get();
            if known.info == info && known.what.size() != 0 {
                return known.what;
            }
        }
        self.ask(info)
    }

    #[cold]
    fn ask(&self, info: MemInfo) -> What {
        // SAFETY: the decoders look only at the word QEMU passed.
        let (size, store) = unsafe {
            (
                1 << abi::qemu_plugin_mem_size_shift(info),
                abi::qemu_plugin_mem_is_store(info),
            )
        };
        let flag = |bit, set| if set { bit } else { 0 };
        let flags = flag(STORE, store) | flag(ATOMIC, self.atomic);
        let what = What::new(self.index, size, flags);
        self.decoded[store as usize].set(Decoded { info, what });
        what
    }
}

impl State {
    pub fn site(&mut self, address: u64, bytes: &[u8]) -> &'static Site {
        let atomic = insn::is_atomic(bytes);
        let (sites, hooks) = (&mut self.sites, &self.hooks);
        self.interned.entry((address, atomic)).or_insert_with(|| {
            sites.push((address, 0));
            let locks = hooks
                .containing(address)
                .any(|h| matches!(h.role, Role::Lock | Role::LockShared | Role::Spin));
            let gives = hooks.containing(address).any(|h| h.role == Role::Give);
            let counts = |role| matches!(role, Role::Sleep { what, .. } if what == Waits::ForCount);
            let counts = hooks.containing(address).any(|h| counts(h.role));
            let leaf = hooks.containing(address).find_map(|h| match h.role {
                Role::Leaf(n) => Some(n),
                _ => None,
            });
            let repeated = insn::is_repeated(bytes);
            Box::leak(Box::new(Site {
                address,
                index: (sites.len() - 1) as u32,
                atomic,
                repeated,
                locks,
                gives,
                counts,
                bits: bits::of(bytes),
                plain: !(atomic || repeated || locks || gives || counts || leaf.is_some()),
                leaf: leaf.unwrap_or(NO_LEAF),
                last: Cell::new((NO_CALLER, 0)),
                decoded: Default::default(),
            }))
        })
    }

    /// Index of `site` as called by the function that `cpu` came from.
    #[inline(always)]
    pub fn site_index(&mut self, cpu: c_uint, site: &Site) -> u32 {
        if site.leaf == NO_LEAF {
            return site.index;
        }
        let caller = *self.cpus[cpu as usize].tracker.caller(site.leaf);
        let (last, index) = site.last.get();
        if caller == last {
            return index;
        }
        let sites = &mut self.sites;
        let index = *self.called.entry((site.index, caller)).or_insert_with(|| {
            sites.push((site.address, caller));
            (sites.len() - 1) as u32
        });
        site.last.set((caller, index));
        index
    }

    /// `cpu` writes at `address`: a lock that is one bit may be taken there, or given back.
    pub fn bit(&mut self, cpu: c_uint, site: &Site, address: u64, size: u8) {
        let c = &mut self.cpus[cpu as usize];
        match site.bits {
            Bits::Take(bit) => c.set_bit(address, bit, site.address),
            Bits::Other => {}
            bits if c.works() && c.tracker.held().has_bit(address) => {
                let clock = self.clock.as_mut();
                let now = clock.and_then(|clock| clock.around(cpu as usize, address));
                let (locks, at) = (c.tracker.locks(), (address, size));
                locks.clear_bit(bits, at, now, c.clock, &mut self.locks);
            }
            _ => {}
        }
    }
}
