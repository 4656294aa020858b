//! Files from users: what they may be, what they are called, and the check for malware.
//!
//! The content alone decides what a file is; neither its name nor what its sender says counts. It is stored under a
//! random identifier, and whoever downloads it gets it as a file to save, with a type from a fixed list.

mod content;
mod file_name;
mod scan;
mod uploads;

pub use content::{MAX_BYTES, media_type, sniff};
pub use file_name::{disposition, file_name};
pub use scan::{AttachmentScanner, CommandScanner, ScanError, ScanVerdict};
pub use uploads::{UploadPermit, Uploads};
