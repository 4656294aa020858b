//! Looking at records on their way to a ledger.

use super::ledger::{Ledger, Record, Ticket};
use std::fmt::Debug;
use std::sync::Arc;

/// Looks at records. Like a ledger it does not wait.
pub trait Witness: Send + Sync + Debug {
    /// Looks at a record that its ledger has not taken yet.
    fn see(&self, record: &Record<'_>);
}

/// A ledger with a witness, who sees each record once. Everything else is the ledger's own affair: what it holds, it
/// holds still.
#[derive(Debug)]
pub struct Witnessed<W> {
    inner: Arc<dyn Ledger>,
    witness: Arc<W>,
}

impl<W: Witness> Witnessed<W> {
    /// Has `witness` look at what goes to `inner`.
    pub fn new(inner: Arc<dyn Ledger>, witness: Arc<W>) -> Self {
        Witnessed { inner, witness }
    }
}

impl<W: Witness> Ledger for Witnessed<W> {
    fn append(&self, record: &Record<'_>) {
        self.witness.see(record);
        self.inner.append(record);
    }

    fn hold(&self, record: &Record<'_>) -> Option<Ticket> {
        self.witness.see(record);
        self.inner.hold(record)
    }

    fn write(&self, ticket: Ticket) {
        self.inner.write(ticket);
    }

    fn is_ready(&self) -> bool {
        self.inner.is_ready()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::RequestId;
    use crate::seam::suite::record;
    use parking_lot::Mutex;

    /// Holds all records, and notes what it is told.
    #[derive(Debug, Default)]
    struct Patient(Mutex<Vec<&'static str>>);

    impl Ledger for Patient {
        fn append(&self, _: &Record<'_>) {
            self.0.lock().push("append");
        }

        fn hold(&self, _: &Record<'_>) -> Option<Ticket> {
            self.0.lock().push("hold");
            Some(Ticket { place: 3, number: 7 })
        }

        fn write(&self, ticket: Ticket) {
            assert_eq!(ticket, Ticket { place: 3, number: 7 });
            self.0.lock().push("write");
        }

        fn is_ready(&self) -> bool {
            false
        }
    }

    #[derive(Debug, Default)]
    struct Seen(Mutex<Vec<RequestId>>);

    impl Witness for Seen {
        fn see(&self, record: &Record<'_>) {
            self.0.lock().push(record.request);
        }
    }

    #[test]
    fn whatever_a_ledger_is_told_reaches_it_and_each_record_is_seen_once() {
        let (patient, seen) = (Arc::<Patient>::default(), Arc::<Seen>::default());
        let ledger = Witnessed::new(patient.clone(), seen.clone());
        ledger.append(&record(1, &[]));
        let ticket = ledger.hold(&record(2, &[])).unwrap();
        ledger.write(ticket);
        assert!(!ledger.is_ready());
        assert_eq!(*patient.0.lock(), ["append", "hold", "write"]);
        assert_eq!(*seen.0.lock(), [RequestId(1), RequestId(2)]);
    }
}
