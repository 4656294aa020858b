//! The names of segments' files.

use rpcgate_core::journal::SegmentId;

const SUFFIX: &str = ".segment";

/// The name of a segment's file.
pub(super) fn file_name(id: SegmentId) -> String {
    format!("{id}{SUFFIX}")
}

/// The segment of a file name; `None` if it is not the name of a segment's file.
pub(super) fn segment_of(name: &str) -> Option<SegmentId> {
    name.strip_suffix(SUFFIX)?.parse().ok()
}
