//! A configuration file: every text is read or refused with the position of the error, and never causes a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rpcgate_config::{Config, Input};

fuzz_target!(|text: &str| {
    let input = Input { file: Some(("fuzz.toml", text)), ..Input::default() };
    if let Err(errors) = Config::read(&input) {
        assert!(!errors.to_string().is_empty());
    }
});
