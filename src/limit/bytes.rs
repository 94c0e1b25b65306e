//! Numbers as bytes: LEB128, seven bits a byte, low ones first, and only the shortest form of each.

/// Bytes being written: on the stack while they are few.
#[derive(Clone, Debug)]
pub struct Bytes {
    inline: [u8; Self::INLINE],
    len: usize,
    spilled: Vec<u8>,
}

impl Default for Bytes {
    fn default() -> Self {
        Self { inline: [0; Self::INLINE], len: 0, spilled: Vec::new() }
    }
}

impl Bytes {
    const INLINE: usize = 120;

    /// What was written.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        if self.spilled.is_empty() {
            self.inline.get(..self.len).unwrap_or(&[])
        } else {
            &self.spilled
        }
    }

    /// Appends `bytes`.
    pub fn bytes(&mut self, bytes: &[u8]) {
        let end = self.len.saturating_add(bytes.len());
        if self.spilled.is_empty() {
            if let Some(room) = self.inline.get_mut(self.len..end) {
                room.copy_from_slice(bytes);
                self.len = end;
                return;
            }
            self.spilled.reserve(end.saturating_mul(2));
            self.spilled.extend_from_slice(self.inline.get(..self.len).unwrap_or(&[]));
        }
        self.spilled.extend_from_slice(bytes);
    }

    /// Appends one byte.
    pub fn byte(&mut self, byte: u8) {
        if self.spilled.is_empty() {
            if let Some(room) = self.inline.get_mut(self.len) {
                *room = byte;
                self.len = self.len.saturating_add(1);
                return;
            }
        }
        self.bytes(&[byte]);
    }

    /// Appends a number.
    pub fn u64(&mut self, mut value: u64) {
        while value > 0x7f {
            self.byte((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8);
    }

    /// Appends the low `len` bytes of a number, at most 8.
    #[inline]
    pub fn le(&mut self, value: u64, len: usize) {
        if self.spilled.is_empty() {
            if let Some(room) =
                self.inline.get_mut(self.len..).and_then(<[u8]>::first_chunk_mut::<8>)
            {
                *room = value.to_le_bytes();
                self.len = self.len.saturating_add(len.min(8));
                return;
            }
        }
        self.bytes(value.to_le_bytes().get(..len).unwrap_or(&[]));
    }

    /// Appends a large number.
    pub fn u128(&mut self, mut value: u128) {
        while value > u128::from(u64::MAX >> 1) {
            self.byte((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.u64(value as u64);
    }

    /// Appends a signed number, small ones in either direction short.
    pub fn i64(&mut self, value: i64) {
        self.u64(zigzag(value));
    }

    /// Appends a length or an index.
    pub fn size(&mut self, value: usize) {
        self.u64(value as u64);
    }
}

/// Bytes being read. Every read says `None` at the end of the bytes or at a number too large.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// The next byte.
    pub fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// The next `n` bytes.
    pub fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }

    /// A number.
    pub fn u64(&mut self) -> Option<u64> {
        self.u128().and_then(|value| u64::try_from(value).ok())
    }

    /// A number of `len` bytes, at most 8; none of them may be in vain.
    #[inline]
    pub fn le(&mut self, len: usize) -> Option<u64> {
        let value = if let Some(chunk) = self.0.first_chunk::<8>() {
            let value = u64::from_le_bytes(*chunk) & MASKS.get(len)?;
            self.0 = self.0.get(len..)?;
            value
        } else {
            let mut chunk = [0; 8];
            chunk.get_mut(..len)?.copy_from_slice(self.take(len)?);
            u64::from_le_bytes(chunk)
        };
        (size(value) == len).then_some(value)
    }

    /// A number of eight bytes.
    #[inline]
    pub fn le_fixed(&mut self) -> Option<u64> {
        let (chunk, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*chunk))
    }

    /// A large number.
    pub fn u128(&mut self) -> Option<u128> {
        let mut value = 0;
        for shift in (0..128).step_by(7) {
            let byte = self.byte()?;
            let bits = u128::from(byte & 0x7f);
            if (bits << shift) >> shift != bits {
                return None;
            }
            value |= bits << shift;
            if byte < 0x80 {
                // One way to write each number, so that equal states are equal bytes.
                return (byte > 0 || shift == 0).then_some(value);
            }
        }
        None
    }

    /// A signed number.
    pub fn i64(&mut self) -> Option<i64> {
        self.u64().map(unzigzag)
    }

    /// A length or an index.
    pub fn size(&mut self) -> Option<usize> {
        usize::try_from(self.u64()?).ok()
    }
}

/// A signed number as an unsigned one, small ones in either direction small.
#[must_use]
pub const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

/// The number that `zigzag` was given.
#[must_use]
pub const fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ (value & 1).cast_signed().wrapping_neg()
}

/// How many bytes a number takes without leading zeros; none for 0.
#[inline]
#[must_use]
pub const fn size(value: u64) -> usize {
    (64_u32.wrapping_sub(value.leading_zeros()).wrapping_add(7) >> 3) as usize
}

/// The low 0 to 8 bytes.
const MASKS: [u64; 9] = [
    0,
    0xff,
    0xffff,
    0xff_ffff,
    0xffff_ffff,
    0xff_ffff_ffff,
    0xffff_ffff_ffff,
    0xff_ffff_ffff_ffff,
    u64::MAX,
];
