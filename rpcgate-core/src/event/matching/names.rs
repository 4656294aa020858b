//! The names of filter keys, stored once while a filter uses them.

use super::slab::Slab;
use std::collections::HashMap;
use std::sync::Arc;

/// Reference-counted names with small numbers.
#[derive(Debug, Default)]
pub(super) struct Names {
    numbers: HashMap<Arc<str>, u32, foldhash::fast::RandomState>,
    names: Slab<(Arc<str>, u32)>,
}

impl Names {
    pub(super) fn get(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    pub(super) fn name(&self, number: u32) -> Option<&str> {
        self.names.get(number).map(|(name, _)| &**name)
    }

    /// Returns the number of a name, and counts one more use.
    pub(super) fn take(&mut self, name: &str) -> Option<u32> {
        if let Some(number) = self.get(name) {
            if let Some((_, uses)) = self.names.get_mut(number) {
                *uses += 1;
            }
            return Some(number);
        }
        let name: Arc<str> = name.into();
        let number = self.names.insert((name.clone(), 1))?;
        self.numbers.insert(name, number);
        Some(number)
    }

    pub(super) fn give_back(&mut self, number: u32) {
        let Some((name, uses)) = self.names.get_mut(number) else { return };
        *uses -= 1;
        if *uses == 0 {
            self.numbers.remove(&**name);
            self.names.remove(number);
        }
    }
}
