//! A file of a different gateway: every text is read or refused with the position of the error, and the result can be
//! read as our configuration, except for variables that are not set.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rpcgate_config::{Config, Input};
use rpcgate_import::{GatewayChecks, SourceForm, import};

fuzz_target!(|text: &str| {
    let checks = GatewayChecks { node_url: |_, _| Ok(()), redis: |_| Ok(()) };
    let chains = ["eth", "bsc", "polygon", "avax", "btc", "solana"];
    for form in SourceForm::ALL.map(Some).into_iter().chain([None]) {
        match import("fuzz", text, form, Some("eth"), checks) {
            Ok(imported) => {
                let input = Input { chains: &chains, file: Some(("new.toml", &imported.toml)), ..Input::default() };
                if let Err(errors) = Config::read(&input) {
                    let text = errors.to_string();
                    let is_known = |line: &str| {
                        line.contains("is not set") || line.contains("unknown chain") || line.contains("unknown key chains.")
                    };
                    assert!(text.lines().all(is_known), "{text}\n{}", imported.toml);
                }
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
});
