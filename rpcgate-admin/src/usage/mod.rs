//! Usage: from records to rollups.
