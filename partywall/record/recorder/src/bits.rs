// SPDX-License-Identifier: GPL-2.0-or-later
//! What an instruction does to single bits of memory: locks that are one bit are taken
//! by LOCK BTS, and given back by what clears the bit.

use crate::insn::split;

/// What an instruction may do to a bit that is a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bits {
    /// It may take one: of which number in its word, unless that is in a register.
    Take(Option<u8>),
    /// Clears these bits, from the accessed address on; None: one whose number is in a register.
    Clear(Option<u64>),
    /// Writes what can't be told here.
    Store,
    /// Gives none back: other locked instructions, which set bits and count.
    Other,
}

/// Whether the operand that is not a register or a constant is memory.
fn in_memory(modrm: u8) -> bool {
    modrm < 0xc0
}

/// Bytes of an operand, but for those of one byte.
fn width(bytes: &[u8], prefixes: &[u8]) -> usize {
    let rex = bytes.get(prefixes.len()).map_or(0, |byte| *byte);
    match (rex & 0xf8 == 0x48, prefixes.contains(&0x66)) {
        (true, _) => 8,
        (false, true) => 2,
        (false, false) => 4,
    }
}

/// The constant of `size` bytes that an instruction ends with, its sign extended.
fn constant(bytes: &[u8], size: usize) -> u64 {
    let start = bytes.len().saturating_sub(size);
    let mut value = [0u8; 8];
    value[..bytes.len() - start].copy_from_slice(&bytes[start..]);
    let unused = 64 - 8 * size as u32;
    ((u64::from_le_bytes(value) << unused) as i64 >> unused) as u64
}

pub fn of(bytes: &[u8]) -> Bits {
    let (prefixes, rest) = split(bytes);
    let locked = prefixes.contains(&0xf0);
    let other = if locked { Bits::Other } else { Bits::Store };
    let size = width(bytes, prefixes);
    let number = || (constant(bytes, 1) as usize % (8 * size)) as u8;
    match *rest {
        [0x0f, 0xab, modrm, ..] if locked && in_memory(modrm) => Bits::Take(None),
        [0x0f, 0xba, modrm, ..] if locked && modrm >> 3 & 7 == 5 => Bits::Take(Some(number())),
        [0x0f, 0xab, ..] => Bits::Other,
        [0x0f, 0xba, modrm, ..] if modrm >> 3 & 7 == 5 => Bits::Other,
        [0x0f, 0xb3, modrm, ..] if in_memory(modrm) => Bits::Clear(None),
        [0x0f, 0xba, modrm, ..] if modrm >> 3 & 7 == 6 => Bits::Clear(Some(1 << number())),
        // AND and XOR with a constant.
        [code, modrm, ..] if matches!(code, 0x80 | 0x81 | 0x83) && in_memory(modrm) => {
            let operand = if code == 0x80 { 1 } else { size };
            let encoded = match code {
                0x81 => operand.min(4),
                _ => 1,
            };
            let value = constant(bytes, encoded);
            let within = u64::MAX >> (64 - 8 * operand as u32);
            match modrm >> 3 & 7 {
                4 => Bits::Clear(Some(!value & within)),
                6 => Bits::Clear(Some(value & within)),
                _ => other,
            }
        }
        _ => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bit_is_taken_by_a_locked_instruction_alone() {
        // lock btsq $0,(%rax); lock btsq $0x16,(%rdi); lock btsl $0x25,(%rdi)
        assert_eq!(of(&[0xf0, 0x48, 0x0f, 0xba, 0x28, 0]), Bits::Take(Some(0)));
        let number = of(&[0xf0, 0x48, 0x0f, 0xba, 0x2f, 0x16]);
        assert_eq!(number, Bits::Take(Some(22)));
        assert_eq!(of(&[0xf0, 0x0f, 0xba, 0x2f, 0x25]), Bits::Take(Some(5)));
        // lock bts %rax,(%rdx); bts %rax,(%rdx); btsq $0,(%rax)
        assert_eq!(of(&[0xf0, 0x48, 0x0f, 0xab, 0x02]), Bits::Take(None));
        assert_eq!(of(&[0x48, 0x0f, 0xab, 0x02]), Bits::Other);
        assert_eq!(of(&[0x48, 0x0f, 0xba, 0x28, 0]), Bits::Other);
    }

    #[test]
    fn what_clears_a_bit_is_known_with_its_number() {
        // btrq $0,(%rax); lock btr %rax,(%rdx)
        assert_eq!(of(&[0x48, 0x0f, 0xba, 0x30, 0]), Bits::Clear(Some(1)));
        assert_eq!(of(&[0xf0, 0x48, 0x0f, 0xb3, 0x02]), Bits::Clear(None));
        // lock andb $0xfb,(%rdi); lock andb $0xbf,0x2(%rdi); lock xorb $1,(%rdi)
        assert_eq!(of(&[0xf0, 0x80, 0x27, 0xfb]), Bits::Clear(Some(4)));
        let beside = of(&[0xf0, 0x80, 0x67, 2, 0xbf]);
        assert_eq!(beside, Bits::Clear(Some(0x40)));
        assert_eq!(of(&[0xf0, 0x80, 0x37, 1]), Bits::Clear(Some(1)));
        // andl $0xfffffffe,(%rax), short and long; andq $-2,(%rax); andw $0x7fff,(%rax)
        assert_eq!(of(&[0x83, 0x20, 0xfe]), Bits::Clear(Some(1)));
        let long = of(&[0x81, 0x20, 0xfe, 0xff, 0xff, 0xff]);
        assert_eq!(long, Bits::Clear(Some(1)));
        assert_eq!(of(&[0x48, 0x83, 0x20, 0xfe]), Bits::Clear(Some(1)));
        let word = of(&[0x66, 0x81, 0x20, 0xff, 0x7f]);
        assert_eq!(word, Bits::Clear(Some(0x8000)));
    }

    #[test]
    fn what_else_is_written_may_be_anything_unless_it_is_locked() {
        assert_eq!(of(&[0x48, 0x89, 0x10]), Bits::Store); // mov %rdx,(%rax)
        assert_eq!(of(&[0xf0, 0x80, 0x0f, 4]), Bits::Other); // lock orb $4,(%rdi)
        assert_eq!(of(&[0xf0, 0xff, 0x07]), Bits::Other); // lock incl (%rdi)
        assert_eq!(of(&[0x80, 0x0f, 4]), Bits::Store);
        assert_eq!(of(&[]), Bits::Store);
    }
}
