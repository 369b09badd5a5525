// SPDX-License-Identifier: GPL-2.0-or-later
//! A writer whose last bytes say whether all before them is whole.

use std::io::{self, Write};

const fn crc_table() -> [u32; 256] {
    let mut table = [0u32; 256];
    let mut n = 0;
    while n < 256 {
        let mut c = n as u32;
        let mut bit = 0;
        while bit < 8 {
            c = if c & 1 != 0 {
                0xedb8_8320 ^ (c >> 1)
            } else {
                c >> 1
            };
            bit += 1;
        }
        table[n] = c;
        n += 1;
    }
    table
}

static CRC_TABLE: [u32; 256] = crc_table();

/// Writes through, and keeps the length and the CRC-32 (IEEE) of all it wrote.
pub struct Checked<W: Write> {
    inner: W,
    crc: u32,
    length: u64,
}

impl<W: Write> Checked<W> {
    pub fn new(inner: W) -> Self {
        Checked {
            inner,
            crc: !0,
            length: 0,
        }
    }

    pub fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        for byte in bytes {
            self.crc = CRC_TABLE[((self.crc ^ *byte as u32) & 0xff) as usize] ^ (self.crc >> 8);
        }
        self.length += bytes.len() as u64;
        self.inner.write_all(bytes)
    }

    pub fn u32(&mut self, value: u32) -> io::Result<()> {
        self.put(&value.to_le_bytes())
    }

    pub fn u64(&mut self, value: u64) -> io::Result<()> {
        self.put(&value.to_le_bytes())
    }

    /// Writes how long all before was and its CRC, and what is not written yet.
    pub fn end(mut self) -> io::Result<()> {
        let length = self.length;
        self.u64(length)?;
        let crc = !self.crc;
        self.inner.write_all(&crc.to_le_bytes())?;
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_usual_crc32() {
        let mut w = Checked::new(Vec::new());
        w.put(b"123456789").unwrap();
        assert_eq!(!w.crc, 0xcbf4_3926);
    }
}
