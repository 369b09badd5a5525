// SPDX-License-Identifier: GPL-2.0-or-later
//! What little of x86-64 instruction encoding the recorder has to know.

/// Start of a window: `xchg %bx,%bx`.
pub const MARK_START: [u8; 3] = [0x66, 0x87, 0xdb];
/// End of a window: `xchg %cx,%cx`.
pub const MARK_STOP: [u8; 3] = [0x66, 0x87, 0xc9];
/// xchg %dx, %dx: what was recorded is of no use, the next round begins.
pub const MARK_NEXT: [u8; 3] = [0x66, 0x87, 0xd2];
/// xchg %si, %si: memory is looked at, while the guest is held.
pub const MARK_LOOK: [u8; 3] = [0x66, 0x87, 0xf6];

fn is_legacy_prefix(byte: u8) -> bool {
    matches!(
        byte,
        0xf0 | 0xf2 | 0xf3 | 0x2e | 0x36 | 0x3e | 0x26 | 0x64 | 0x65 | 0x66 | 0x67
    )
}

/// The legacy prefixes of an instruction, and what follows them and a REX.
pub fn split(bytes: &[u8]) -> (&[u8], &[u8]) {
    let count = bytes.iter().take_while(|b| is_legacy_prefix(**b)).count();
    let (prefixes, rest) = bytes.split_at(count);
    match rest {
        [0x40..=0x4f, tail @ ..] => (prefixes, tail),
        _ => (prefixes, rest),
    }
}

/// True for a LOCKed instruction and for XCHG with memory, which locks by itself.
pub fn is_atomic(bytes: &[u8]) -> bool {
    let (prefixes, rest) = split(bytes);
    prefixes.contains(&0xf0) || matches!(rest, [0x86 | 0x87, modrm, ..] if *modrm < 0xc0)
}

/// IRET in any operand size, and SYSRET: the ways back out of the kernel.
pub fn is_exception_return(bytes: &[u8]) -> bool {
    matches!(bytes, [0xcf] | [0x48, 0xcf] | [0x48, 0x0f, 0x07])
}

/// Where a direct jump goes, with a condition or without; it may be a tail call.
pub fn target(bytes: &[u8], address: u64) -> Option<u64> {
    let next = address.wrapping_add(bytes.len() as u64);
    let distance = match bytes {
        [0xe9, a, b, c, d] | [0x2e, 0xe9, a, b, c, d] | [0x0f, 0x80..=0x8f, a, b, c, d] => {
            i32::from_le_bytes([*a, *b, *c, *d]) as i64
        }
        [0xeb | 0x70..=0x7f, a] => *a as i8 as i64,
        _ => return None,
    };
    Some(next.wrapping_add(distance as u64))
}

/// True if the instruction leaves the function `[start, end)`: a return, or a
/// direct jump out of it (tail call, or the return thunk that mitigations use).
pub fn leaves(bytes: &[u8], address: u64, start: u64, end: u64) -> bool {
    match bytes {
        [0xc3, ..] | [0xc2, ..] | [0xf3, 0xc3, ..] => true,
        [0x0f | 0x70..=0x7f, ..] => false,
        _ => target(bytes, address).map_or(false, |to| !(start..end).contains(&to)),
    }
}

/// PUSHF, which nothing on the way back to a program needs.
pub fn is_push_of_flags(bytes: &[u8]) -> bool {
    bytes == [0x9c]
}

/// A near call, direct or through a register or memory.
pub fn is_call(bytes: &[u8]) -> bool {
    let (_, rest) = split(bytes);
    matches!(rest, [0xe8, ..]) || matches!(rest, [0xff, modrm, ..] if modrm >> 3 & 7 == 2)
}

/// POP of a general register, `Some(true)`; PUSH, `Some(false)`.
pub fn is_pop(bytes: &[u8]) -> Option<bool> {
    match bytes {
        [0x58..=0x5f] | [0x41, 0x58..=0x5f] => Some(true),
        [0x50..=0x57] | [0x41, 0x50..=0x57] => Some(false),
        _ => None,
    }
}

/// A string instruction that repeats. A processor counts it once, however many
/// bytes it moves; the emulator runs its every step as an instruction.
pub fn is_repeated(bytes: &[u8]) -> bool {
    let (prefixes, rest) = split(bytes);
    let repeats = prefixes.iter().any(|b| matches!(b, 0xf2 | 0xf3));
    repeats && matches!(rest, [0xa4..=0xa7 | 0xaa..=0xaf | 0x6c..=0x6f])
}

/// PAUSE, with which code says that it spins.
pub fn is_pause(bytes: &[u8]) -> bool {
    bytes == [0xf3, 0x90]
}

/// PUSH of a register or a constant.
pub fn is_push(bytes: &[u8]) -> bool {
    is_pop(bytes) == Some(false) || matches!(bytes, [0x68 | 0x6a, ..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn string_instructions_repeat_only_with_a_prefix() {
        assert!(is_repeated(&[0xf3, 0xaa])); // rep stosb
        assert!(is_repeated(&[0xf3, 0x48, 0xa5])); // rep movsq
        assert!(is_repeated(&[0xf2, 0xae])); // repne scasb
        assert!(!is_repeated(&[0xaa]));
        assert!(!is_repeated(&[0xf3, 0xc3])); // repz ret
        assert!(!is_repeated(&[0xf3, 0x0f, 0x1e, 0xfa])); // endbr64
        assert!(!is_repeated(&[]));
    }

    #[test]
    fn pause_is_a_nop_with_a_prefix() {
        assert!(is_pause(&[0xf3, 0x90]));
        assert!(!is_pause(&[0x90]));
        assert!(!is_pause(&[0xf3, 0xc3]));
    }

    #[test]
    fn pushes() {
        assert!(is_push(&[0x50]));
        assert!(is_push(&[0x41, 0x57]));
        assert!(is_push(&[0x6a, 0x2b])); // push $0x2b
        assert!(!is_push(&[0x58]));
        assert!(!is_push(&[]));
    }

    #[test]
    fn atomics_are_lock_prefix_and_xchg_with_memory() {
        assert!(is_atomic(&[0xf0, 0x48, 0xff, 0x07])); // lock incq (%rdi)
        assert!(is_atomic(&[0x48, 0x87, 0x07])); // xchg %rax,(%rdi)
        assert!(is_atomic(&[0x65, 0x48, 0x87, 0x07])); // with a segment
        assert!(!is_atomic(&[0x66, 0x87, 0xdb])); // xchg %bx,%bx
        assert!(!is_atomic(&[0x48, 0xff, 0x07])); // incq (%rdi)
        assert!(!is_atomic(&[]));
        assert!(!is_atomic(&[0xf3]));
    }

    #[test]
    fn leaving_is_a_return_or_a_jump_outside() {
        assert!(leaves(&[0xc3], 0x1000, 0x0f00, 0x1100));
        assert!(leaves(&[0xe9, 0, 0x10, 0, 0], 0x1000, 0x0f00, 0x1100));
        assert!(!leaves(&[0xe9, 0x10, 0, 0, 0], 0x1000, 0x0f00, 0x1100));
        assert!(!leaves(&[0xeb, 0xf0], 0x1000, 0x0f00, 0x1100)); // backwards, inside
        assert!(leaves(&[0xeb, 0x80], 0x1000, 0x0ff0, 0x1100)); // backwards, outside
        assert!(!leaves(&[0x90], 0x1000, 0x0f00, 0x1100));
    }

    #[test]
    fn a_jump_with_or_without_a_condition_may_be_a_tail_call() {
        assert_eq!(target(&[0xe9, 0, 0x10, 0, 0], 0x1000), Some(0x2005));
        assert_eq!(target(&[0x0f, 0x84, 0, 0x10, 0, 0], 0x1000), Some(0x2006));
        assert_eq!(target(&[0x74, 0xfe], 0x1000), Some(0x1000));
        assert_eq!(target(&[0xe8, 0, 0, 0, 0], 0x1000), None);
        assert_eq!(target(&[0xff, 0xe0], 0x1000), None);
        assert!(!leaves(
            &[0x0f, 0x84, 0, 0x10, 0, 0],
            0x1000,
            0x0f00,
            0x1100
        ));
    }

    #[test]
    fn calls() {
        assert!(is_call(&[0xe8, 0, 0, 0, 0]));
        assert!(is_call(&[0xff, 0xd0])); // call *%rax
        assert!(is_call(&[0x41, 0xff, 0xd3])); // call *%r11
        assert!(is_call(&[0x2e, 0xe8, 0, 0, 0, 0]));
        assert!(!is_call(&[0xff, 0xe0])); // jmp *%rax
        assert!(!is_call(&[0xff, 0x07])); // incl (%rdi)
    }

    #[test]
    fn exception_returns() {
        assert!(is_exception_return(&[0x48, 0xcf]));
        assert!(is_exception_return(&[0x48, 0x0f, 0x07]));
        assert!(!is_exception_return(&[0xc3]));
    }
}
