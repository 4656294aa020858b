//! Observers of records on their way to a sink.

use super::usage_sink::{Record, Ticket, UsageSink};
use std::fmt::Debug;
use std::sync::Arc;

/// An observer of every record. Like a sink, it does not block.
pub trait UsageObserver: Send + Sync + Debug {
    /// Observes a record before the sink gets it.
    fn see(&self, record: &Record<'_>);
}

/// A sink whose observer sees each record once. The inner sink decides everything else.
#[derive(Debug)]
pub struct ObservedSink<W> {
    inner: Arc<dyn UsageSink>,
    observer: Arc<W>,
}

impl<W: UsageObserver> ObservedSink<W> {
    /// Creates a sink that shows every record to `observer` before `inner`.
    pub fn new(inner: Arc<dyn UsageSink>, observer: Arc<W>) -> Self {
        ObservedSink { inner, observer }
    }
}

impl<W: UsageObserver> UsageSink for ObservedSink<W> {
    fn append(&self, record: &Record<'_>) {
        self.observer.see(record);
        self.inner.append(record);
    }

    fn hold(&self, record: &Record<'_>) -> Option<Ticket> {
        self.observer.see(record);
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
    use crate::backend::suite::record;
    use crate::caller::RequestId;
    use parking_lot::Mutex;

    /// A sink that holds all records and logs its calls.
    #[derive(Debug, Default)]
    struct Patient(Mutex<Vec<&'static str>>);

    impl UsageSink for Patient {
        fn append(&self, _: &Record<'_>) {
            self.0.lock().push("append");
        }

        fn hold(&self, _: &Record<'_>) -> Option<Ticket> {
            self.0.lock().push("hold");
            Some(Ticket { slot: 3, number: 7 })
        }

        fn write(&self, ticket: Ticket) {
            assert_eq!(ticket, Ticket { slot: 3, number: 7 });
            self.0.lock().push("write");
        }

        fn is_ready(&self) -> bool {
            false
        }
    }

    #[derive(Debug, Default)]
    struct Seen(Mutex<Vec<RequestId>>);

    impl UsageObserver for Seen {
        fn see(&self, record: &Record<'_>) {
            self.0.lock().push(record.request);
        }
    }

    #[test]
    fn every_record_reaches_the_sink_and_is_observed_once() {
        let patient = Arc::<Patient>::default();
        let seen = Arc::<Seen>::default();
        let sink = ObservedSink::new(patient.clone(), seen.clone());
        sink.append(&record(1, &[]));
        let ticket = sink.hold(&record(2, &[])).unwrap();
        sink.write(ticket);
        assert!(!sink.is_ready());
        assert_eq!(*patient.0.lock(), ["append", "hold", "write"]);
        assert_eq!(*seen.0.lock(), [RequestId(1), RequestId(2)]);
    }
}
