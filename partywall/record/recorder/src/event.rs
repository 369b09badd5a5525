// SPDX-License-Identifier: GPL-2.0-or-later
//! What a CPU does, as it is kept until it is counted: blocks of code, and accesses.
//!
//! Millions of them pass in a second, so one is no more than two words.

pub const STORE: u8 = 1;
pub const ATOMIC: u8 = 2;
/// On the stack of the task that runs.
pub const OWN_STACK: u8 = 4;
/// A block of code begins; `address` holds how many instructions it has.
pub const BLOCK: u8 = 8;
/// A block with PAUSE in it.
pub const PAUSE: u8 = 16;
/// Something after which a loop is not the same again.
pub const STEP: u8 = 32;
/// Other locks are held from here on; `address` is the number of their set. `ATOMIC`: what
/// comes next takes one.
pub const LOCKS: u8 = 64;

/// What an event is, but for the address: flags, bytes, a context where it is counted,
/// and the number of the instruction or block, from the lowest bits on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct What(u64);

impl What {
    pub const fn new(number: u32, size: u8, flags: u8) -> What {
        What((number as u64) << 32 | (size as u64) << 8 | flags as u64)
    }

    /// The number of the instruction, or of the block.
    #[inline(always)]
    pub fn number(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline(always)]
    pub fn context(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// Bytes of an access.
    #[inline(always)]
    pub fn size(self) -> u8 {
        (self.0 >> 8) as u8
    }

    #[inline(always)]
    pub fn flags(self) -> u8 {
        self.0 as u8
    }

    /// Whether it has any of `flags`.
    #[inline(always)]
    pub fn is(self, flags: u8) -> bool {
        self.0 & flags as u64 != 0
    }

    #[inline(always)]
    pub fn with(self, flags: u8) -> What {
        What(self.0 | flags as u64)
    }

    /// The same by the instruction of another number.
    #[inline(always)]
    pub fn of(self, number: u32) -> What {
        What(self.0 & u32::MAX as u64 | (number as u64) << 32)
    }

    /// By what an access is counted: in a `context`, loads and stores together.
    #[inline(always)]
    pub fn counted(self, context: u16) -> What {
        What(self.0 & !(STORE as u64) | (context as u64) << 16)
    }

    #[inline(always)]
    pub fn hash(self) -> u64 {
        self.0
    }
}

/// A block that is run, or an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub address: u64,
    pub what: What,
}

impl Event {
    /// A read of memory that another CPU might write.
    pub fn reads(&self) -> bool {
        !self.what.is(STORE | OWN_STACK | BLOCK | STEP | LOCKS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_what_comes_out() {
        let what = What::new(u32::MAX - 1, 64, STORE | ATOMIC);
        assert_eq!((what.number(), what.size()), (u32::MAX - 1, 64));
        assert!(what.is(STORE) && !what.is(OWN_STACK | BLOCK));
        let counted = what.with(OWN_STACK).of(7).counted(0x8123);
        assert_eq!(counted.flags(), ATOMIC | OWN_STACK);
        assert_eq!((counted.number(), counted.size()), (7, 64));
        assert_eq!(counted.context(), 0x8123);
    }
}
