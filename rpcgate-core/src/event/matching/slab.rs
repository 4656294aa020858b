//! A store of values with small, reused numbers.

/// A reserved number that no value has.
pub(super) const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct Slab<T> {
    values: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { values: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Stores a value and returns its number; `None` if all are in use.
    pub(super) fn insert(&mut self, value: T) -> Option<u32> {
        if let Some(number) = self.free.pop() {
            self.values[number as usize] = Some(value);
            return Some(number);
        }
        let number = u32::try_from(self.values.len()).ok().filter(|number| *number != NONE)?;
        self.values.push(Some(value));
        Some(number)
    }

    pub(super) fn remove(&mut self, number: u32) -> Option<T> {
        let value = self.values.get_mut(number as usize)?.take()?;
        self.free.push(number);
        Some(value)
    }

    pub(super) fn get(&self, number: u32) -> Option<&T> {
        self.values.get(number as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.values.get_mut(number as usize)?.as_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.values.iter().flatten()
    }

    pub(super) fn len(&self) -> usize {
        self.values.len() - self.free.len()
    }
}
