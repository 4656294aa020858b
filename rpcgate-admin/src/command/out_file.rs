//! The file of `--out`.

use super::command_error::CommandError;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The mode of the file. Its contents are private, so only its owner may read and write it.
const FILE_MODE: u32 = 0o600;

pub(super) fn new_file(path: &Path) -> Result<File, CommandError> {
    let made = File::options().write(true).create_new(true).mode(FILE_MODE).open(path);
    made.map_err(|error| CommandError::usage(format!("--out: {}: {error}", path.display())))
}
