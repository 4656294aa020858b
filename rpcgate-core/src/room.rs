//! A bound on memory: whoever holds a body says how large it is, and is refused when all bodies together are too large.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// So many bytes, shared by everything that holds bodies.
#[derive(Debug)]
pub struct Room {
    limit: usize,
    held: AtomicUsize,
}

impl Room {
    /// Room for `limit` bytes.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Room { limit, held: AtomicUsize::new(0) })
    }

    /// Bytes held now.
    pub fn held(&self) -> usize {
        self.held.load(Relaxed)
    }
}

/// A share of a [`Room`], given back when dropped. The default holds nothing and asks nobody.
#[derive(Debug, Default)]
pub struct Held {
    room: Option<Arc<Room>>,
    bytes: usize,
}

/// There is no room left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

impl Held {
    /// An empty share of `room`.
    pub fn of(room: Arc<Room>) -> Self {
        Held { room: Some(room), bytes: 0 }
    }

    /// Another empty share of the same room.
    pub fn sibling(&self) -> Self {
        Held { room: self.room.clone(), bytes: 0 }
    }

    /// Takes over what `other` holds, of the same room.
    pub fn absorb(&mut self, mut other: Held) {
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// Takes `bytes` more.
    ///
    /// # Errors
    /// [`Full`] when that is more than the room has left; then nothing more is held.
    pub fn take(&mut self, bytes: usize) -> Result<(), Full> {
        if let Some(room) = &self.room {
            let before = room.held.fetch_add(bytes, Relaxed);
            if before.saturating_add(bytes) > room.limit {
                room.held.fetch_sub(bytes, Relaxed);
                return Err(Full);
            }
        }
        self.bytes += bytes;
        Ok(())
    }

    /// Takes what is missing to `bytes` in all.
    ///
    /// # Errors
    /// [`Full`] when that is more than the room has left; then nothing more is held.
    pub fn take_up_to(&mut self, bytes: usize) -> Result<(), Full> {
        self.take(bytes.saturating_sub(self.bytes))
    }

    /// Gives back what is held beyond `bytes`.
    pub fn keep(&mut self, bytes: usize) {
        let rest = self.bytes.saturating_sub(bytes);
        if let Some(room) = &self.room {
            room.held.fetch_sub(rest, Relaxed);
        }
        self.bytes -= rest;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(room) = &self.room {
            room.held.fetch_sub(self.bytes, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_refused_beyond_the_limit_and_given_back_at_its_end() {
        let room = Room::new(10);
        let mut one = Held::of(room.clone());
        let mut two = Held::of(room.clone());
        assert_eq!((one.take(6), two.take(5), two.take(4)), (Ok(()), Err(Full), Ok(())));
        assert_eq!(room.held(), 10);
        drop(one);
        assert_eq!(room.held(), 4);
        let mut three = two.sibling();
        assert_eq!(three.take(5), Ok(()));
        two.absorb(three);
        assert_eq!(room.held(), 9);
        assert_eq!((two.take_up_to(8), room.held()), (Ok(()), 9), "it holds more already");
        assert_eq!((two.take_up_to(11), room.held()), (Err(Full), 9));
        assert_eq!((two.take_up_to(10), room.held()), (Ok(()), 10));
        two.keep(11);
        assert_eq!(room.held(), 10);
        two.keep(3);
        assert_eq!(room.held(), 3);
        drop(two);
        assert_eq!(room.held(), 0);
    }
}
