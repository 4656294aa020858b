//! Files from users: accepted kinds, names, and the malware check.
//!
//! Only the content decides the kind of a file; its name and the sender's media type are ignored. A file is stored
//! under a random identifier, and is downloaded as a file to save, with a type from a fixed list.

mod content;
mod file_name;
mod scan;
mod uploads;

pub use content::{MAX_BYTES, media_type, sniff};
pub use file_name::{disposition, file_name};
pub use scan::{AttachmentScanner, CommandScanner, ScanError, ScanVerdict};
pub use uploads::{UploadPermit, Uploads};
