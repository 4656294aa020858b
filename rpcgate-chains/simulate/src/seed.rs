//! A seed and the values derived from it: numbers and hashes that look random and are always the same.

/// A seed. Every value is a function of the seed, a tag that names the use, and a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seed(u64);

/// Runs the finishing step of the SplitMix64 generator (Steele, Lea, Flood 2014): each bit of the input affects every
/// bit of the output.
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Seed {
    /// Returns the seed of one chain: nodes of two chains with the same seed have different histories.
    pub(crate) fn of(chain: &str, seed: u64) -> Self {
        Seed(chain.bytes().fold(mix(seed), |sum, byte| mix(sum ^ u64::from(byte))))
    }

    /// Returns a 64-bit number.
    pub(crate) fn word(self, tag: &str, n: u64) -> u64 {
        let tagged = tag.bytes().fold(self.0, |sum, byte| sum.rotate_left(7).wrapping_add(u64::from(byte)));
        mix(mix(tagged) ^ n)
    }

    /// Returns a number below `bound`, which is not 0.
    pub(crate) fn below(self, tag: &str, n: u64, bound: u64) -> u64 {
        self.word(tag, n) % bound
    }

    /// Returns `N` bytes.
    pub(crate) fn bytes<const N: usize>(self, tag: &str, n: u64) -> [u8; N] {
        let first = self.word(tag, n);
        let mut out = [0; N];
        for (index, chunk) in out.chunks_mut(8).enumerate() {
            let word = mix(first ^ (index as u64) << 32).to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
        out
    }

    /// Returns 32 bytes that look random and encode `n` for [`Seed::reveal`]: a hash by which a block or transaction
    /// can be looked up without an index.
    pub(crate) fn hide(self, tag: &str, n: u64) -> [u8; 32] {
        let mut out = self.bytes::<32>(tag, n);
        let mask = self.mask(tag, &out);
        out[24..].copy_from_slice(&(n ^ mask).to_be_bytes());
        out
    }

    /// Returns the number that [`Seed::hide`] encoded in `hash`; `None` for any other 32 bytes.
    pub(crate) fn reveal(self, tag: &str, hash: &[u8; 32]) -> Option<u64> {
        let tail: [u8; 8] = hash[24..].try_into().ok()?;
        let n = u64::from_be_bytes(tail) ^ self.mask(tag, hash);
        (self.hide(tag, n) == *hash).then_some(n)
    }

    fn mask(self, tag: &str, hash: &[u8; 32]) -> u64 {
        hash[..24].chunks(8).fold(self.word(tag, u64::MAX), |sum, chunk| {
            let mut word = [0; 8];
            word.copy_from_slice(chunk);
            mix(sum ^ u64::from_le_bytes(word))
        })
    }
}

/// A sequence of numbers from a seed.
#[derive(Debug, Clone)]
pub(crate) struct Stream {
    seed: Seed,
    drawn: u64,
}

impl Stream {
    pub(crate) fn new(seed: u64) -> Self {
        Stream { seed: Seed(mix(seed)), drawn: 0 }
    }

    /// Returns the next number, uniformly distributed over 0..1.
    pub(crate) fn unit(&mut self) -> f64 {
        self.drawn += 1;
        (self.seed.word("stream", self.drawn) >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hidden_number_is_found_again_and_no_other_hash_is() {
        let seed = Seed::of("eth", 1);
        for n in [0, 1, 24_000_000, u64::MAX] {
            assert_eq!(seed.reveal("block", &seed.hide("block", n)), Some(n));
            assert_eq!(seed.reveal("transaction", &seed.hide("block", n)), None);
            assert_eq!(Seed::of("bsc", 1).reveal("block", &seed.hide("block", n)), None);
        }
        assert_eq!(seed.reveal("block", &[0; 32]), None);
    }

    #[test]
    fn values_repeat_for_a_seed_and_differ_between_seeds() {
        assert_eq!(Seed::of("eth", 1).bytes::<20>("a", 3), Seed::of("eth", 1).bytes::<20>("a", 3));
        assert_ne!(Seed::of("eth", 1).bytes::<20>("a", 3), Seed::of("eth", 2).bytes::<20>("a", 3));
        assert_ne!(Seed::of("eth", 1).word("a", 3), Seed::of("eth", 1).word("b", 3));
    }
}
