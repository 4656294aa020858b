//! The metrics of both binaries, and the writers of metrics.

mod certificate;
mod format;
mod page;
mod program;

pub use certificate::CertificateMetrics;
pub use format::MetricsFormat;
pub use page::{Histogram, MetricsWriter};
pub use program::ProgramMetrics;
