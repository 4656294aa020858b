//! `rpcgate-server demo` in a binary built without the feature `demo`.

use crate::demo_options::DemoOptions;
use rpcgate_process::Failure;

/// Fails: this binary was built without the demo.
///
/// # Errors
/// Always [`Failure::Other`].
#[expect(clippy::unused_async, reason = "the demo that is built in has to wait")]
pub async fn execute(options: DemoOptions) -> Result<(), Failure> {
    drop(options);
    Err(Failure::Other("this binary was built without the demo: build it with --features demo".into()))
}
