//! The codes of enumerated values in frames. They are part of the stored format: a new value gets the next number.

use crate::backend::usage_sink::{Outcome, Phase};
use crate::plan::Tier;
use crate::transport::Transport;

pub(super) trait Code: Copy + Sized + 'static {
    /// All values, each at the index that is its code.
    const WORDS: &'static [Self];

    fn code(self) -> u8;

    fn word(code: u8) -> Option<Self> {
        Self::WORDS.get(usize::from(code)).copied()
    }
}

impl Code for Phase {
    const WORDS: &'static [Self] = &[Phase::Complete, Phase::Begin, Phase::Pushed, Phase::End];

    fn code(self) -> u8 {
        match self {
            Phase::Complete => 0,
            Phase::Begin => 1,
            Phase::Pushed => 2,
            Phase::End => 3,
        }
    }
}

impl Code for Transport {
    const WORDS: &'static [Self] = &[Transport::Http, Transport::Ws, Transport::Grpc];

    fn code(self) -> u8 {
        match self {
            Transport::Http => 0,
            Transport::Ws => 1,
            Transport::Grpc => 2,
        }
    }
}

impl Code for Tier {
    const WORDS: &'static [Self] = &[Tier::Free, Tier::Standard, Tier::Premium, Tier::Enterprise];

    fn code(self) -> u8 {
        match self {
            Tier::Free => 0,
            Tier::Standard => 1,
            Tier::Premium => 2,
            Tier::Enterprise => 3,
        }
    }
}

impl Code for Outcome {
    const WORDS: &'static [Self] =
        &[Outcome::Answered, Outcome::NodeError, Outcome::Refused, Outcome::Failed, Outcome::Abandoned];

    fn code(self) -> u8 {
        match self {
            Outcome::Answered => 0,
            Outcome::NodeError => 1,
            Outcome::Refused => 2,
            Outcome::Failed => 3,
            Outcome::Abandoned => 4,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Debug;

    fn check<T: Code + PartialEq + Debug>(bits: u32) {
        for (place, word) in T::WORDS.iter().enumerate() {
            assert_eq!((usize::from(word.code()), T::word(word.code())), (place, Some(*word)));
        }
        assert!(T::WORDS.len() <= 1 << bits, "it must fit its bits");
        assert_eq!(T::word(T::WORDS.len() as u8), None);
    }

    #[test]
    fn every_word_has_its_number_and_fits_its_bits() {
        check::<Phase>(2);
        check::<Transport>(2);
        check::<Tier>(8);
        check::<Outcome>(3);
    }
}
