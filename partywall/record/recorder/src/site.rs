// SPDX-License-Identifier: GPL-2.0-or-later
//! Instrumented instructions: what is known of one when it is translated.

use crate::abi::{self, MemInfo};
use crate::bits::{self, Bits};
use crate::event::{What, STORE};
use crate::hooks::{Role, Waits};
use crate::insn;
use crate::state::State;
use std::cell::Cell;
use std::os::raw::{c_uint, c_void};

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
}

impl Site {
    /// The word that a callback for its accesses is given: of a plain one its index, as there are
    /// so many that hardly any is in a cache of the host's when it is looked at.
    pub fn word(&'static self) -> *mut c_void {
        match self.plain {
            true => ((self.index as usize) << 1 | 1) as *mut c_void,
            false => self as *const Site as *mut c_void,
        }
    }

    /// The index of a plain one, of which a callback has this word.
    #[inline(always)]
    pub fn plain_index(word: *mut c_void) -> Option<u32> {
        let word = word as usize;
        (word & 1 != 0).then_some((word >> 1) as u32)
    }
}

// An index and a bit fit into a word, and a site lies at no odd address.
const _: () = assert!(std::mem::size_of::<usize>() > 4 && std::mem::align_of::<Site>() > 1);

const INFO_SHIFT: u32 = 24;
const INFOS: usize = 1 << (32 - INFO_SHIFT);

/// What QEMU said of accesses, and what that means: asking it costs two calls, and it says few
/// different things.
pub struct Infos([(MemInfo, What); INFOS]);

impl Default for Infos {
    fn default() -> Self {
        Infos([Default::default(); INFOS])
    }
}

impl Infos {
    /// What an access is of which QEMU says `info`, but for its instruction.
    #[inline(always)]
    pub fn decode(&mut self, info: MemInfo) -> What {
        let known = &mut self.0[(info.wrapping_mul(0x9e37_79b1) >> INFO_SHIFT) as usize];
        // Of nothing the size is none.
        if known.0 != info || known.1.size() == 0 {
            *known = (info, ask(info));
        }
        known.1
    }
}

#[cold]
fn ask(info: MemInfo) -> What {
    // SAFETY: the decoders look only at the word QEMU passed.
    let (size, store) = unsafe {
        (
            1 << abi::qemu_plugin_mem_size_shift(info),
            abi::qemu_plugin_mem_is_store(info),
        )
    };
    What::new(0, size, if store { STORE } else { 0 })
}

impl State {
    pub fn site(&mut self, address: u64, bytes: &[u8]) -> &'static Site {
        let atomic = insn::is_atomic(bytes);
        let (sites, known, hooks) = (&mut self.sites, &mut self.known, &self.hooks);
        self.interned.entry((address, atomic)).or_insert_with(|| {
            sites.push((address, 0));
            let index = (sites.len() - 1) as u32;
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
            let site = Box::leak(Box::new(Site {
                address,
                index,
                atomic,
                repeated,
                locks,
                gives,
                counts,
                bits: bits::of(bytes),
                plain: !(atomic || repeated || locks || gives || counts || leaf.is_some()),
                leaf: leaf.unwrap_or(NO_LEAF),
                last: Cell::new((NO_CALLER, 0)),
            }));
            known.resize(index as usize, None);
            known.push(Some(&*site));
            site
        })
    }

    /// The site of which a callback has this word.
    ///
    /// # Safety
    /// The word must be one that `Site::word` gave.
    pub unsafe fn site_of(&self, word: *mut c_void) -> &'static Site {
        match Site::plain_index(word) {
            Some(index) => self.known[index as usize].expect("a site of its own"),
            // An interned Site, which is never freed.
            None => &*(word as *const Site),
        }
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
