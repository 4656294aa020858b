//! The set of calls that passes through the stack.

use super::stage::{Before, Parsed};
use crate::tally::Tally;
use std::fmt;
use std::marker::PhantomData;

/// A set of 1 to 100 calls on the stack, for one chain, from one caller. `At` is the last layer that it passed, so that
/// layers in a wrong order do not compile.
pub struct Calls<At = Parsed> {
    tally: Box<Tally>,
    at: PhantomData<fn() -> At>,
}

impl Calls<Parsed> {
    /// Creates a set at the start of the stack.
    pub fn new(tally: Box<Tally>) -> Self {
        Calls { tally, at: PhantomData }
    }
}

impl<At> Calls<At> {
    /// Returns the set's account.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Returns the set's account, mutable.
    pub fn tally_mut(&mut self) -> &mut Tally {
        &mut self.tally
    }

    /// Returns only the account, at the end of the stack.
    pub fn into_tally(self) -> Box<Tally> {
        self.tally
    }

    /// Returns the same set, after one or more further layers.
    pub fn at<B>(self) -> Calls<B>
    where
        At: Before<B>,
    {
        Calls { tally: self.tally, at: PhantomData }
    }
}

impl<At> fmt::Debug for Calls<At> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Calls").field(&self.tally).finish()
    }
}
