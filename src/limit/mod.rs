//! Stub: stands in for the pure core until it is merged.

/// Everything that one key holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limiter {
    /// Some bytes.
    pub bytes: Vec<u8>,
    /// Some numbers.
    pub words: Vec<u64>,
}

impl Limiter {
    /// The whole state in versioned bytes, a checksum at the end.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.push(1);
        out.extend_from_slice(&(self.words.len() as u64).to_le_bytes());
        for word in &self.words {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&self.bytes);
        let sum = out
            .iter()
            .skip(start)
            .fold(7u32, |a, b| a.rotate_left(5) ^ u32::from(*b));
        out.extend_from_slice(&sum.to_le_bytes());
    }

    /// The state that [`Limiter::encode`] wrote, or none if the bytes are not exactly that.
    pub fn decode(bytes: &[u8]) -> Option<Limiter> {
        let (body, sum) = bytes.split_at_checked(bytes.len().checked_sub(4)?)?;
        let found = body
            .iter()
            .fold(7u32, |a, b| a.rotate_left(5) ^ u32::from(*b));
        if found.to_le_bytes() != sum {
            return None;
        }
        let (version, rest) = body.split_first()?;
        let (count, rest) = rest.split_first_chunk::<8>()?;
        let (words, bytes) = rest.split_at_checked(
            usize::try_from(u64::from_le_bytes(*count))
                .ok()?
                .checked_mul(8)?,
        )?;
        let words = words
            .chunks_exact(8)
            .filter_map(|c| Some(u64::from_le_bytes(c.try_into().ok()?)))
            .collect();
        (*version == 1).then(|| Limiter {
            bytes: bytes.to_vec(),
            words,
        })
    }

    /// The state as one `rl.x` blob that sets it whatever was there.
    pub fn encode_full_op(&self, out: &mut Vec<u8>) {
        self.encode(out);
    }

    /// Bytes on the heap beside the value itself.
    pub fn heap_bytes(&self) -> usize {
        self.bytes
            .capacity()
            .saturating_add(self.words.capacity().saturating_mul(8))
    }

    /// How much work it is to free, at least 1.
    pub fn free_effort(&self) -> usize {
        1
    }

    /// Hands out the heap blocks, so that the server can move them.
    pub fn for_each_block(
        &mut self,
        f: &mut dyn FnMut(&mut Vec<u8>),
        g: &mut dyn FnMut(&mut Vec<u64>),
    ) {
        f(&mut self.bytes);
        g(&mut self.words);
    }
}
